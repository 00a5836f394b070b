from pathlib import Path

import jsonschema
import pytest

from daskfs.errors import ConfigError
from daskfs.pipeline.schemas import json_schema, json_schema_text
from daskfs.sources.ingest import ingest
from tests.refusals import refused

FOLDER = Path(__file__).parents[2] / "data_schemas"


@pytest.mark.parametrize("name", ["pipeline", "result", "store", "model"])
def test_the_copies_in_data_schemas_are_what_the_code_says(name):
    text = (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert text == json_schema_text(name), "python -m daskfs.pipeline.schemas writes them"
    jsonschema.Draft202012Validator.check_schema(json_schema(name))


def test_a_store_keeps_to_its_schema(tmp_path):
    store = ingest("sklearn:diabetes", tmp_path / "d.zarr")
    jsonschema.validate(store.header.to_dict(), json_schema("store"))


def test_an_unknown_document_gets_the_nearest_known():
    with refused(ConfigError, "pipeline-files", at="schema", naming=["'stor'", "did you mean", "'store'"]):
        json_schema("stor")
