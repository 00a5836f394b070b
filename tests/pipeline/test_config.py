import inspect
import json
from typing import get_args

import jsonschema
import pytest
from pydantic import BaseModel

from daskfs.documents import PATH, dump_yaml, expand_environment, parse_yaml, resolve_paths
from daskfs.errors import ConfigError
from daskfs.methods import METHODS, find_method
from daskfs.pipeline.config import Pipeline, load_pipeline, written_paths
from daskfs.pipeline.folder import FILES
from daskfs.pipeline.schemas import json_schema
from daskfs.pipeline.selections import section_of
from daskfs.sources.registry import SOURCES, options_of
from daskfs.sources.registry import section_of as section_of_source


def fault_of(path, *overrides):
    with pytest.raises(ConfigError) as caught:
        load_pipeline(path, overrides)
    return str(caught.value)


def test_paths_are_relative_to_the_file(document, write, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    pipeline = load_pipeline(write(document))
    assert pipeline.source.path == str(tmp_path / "table.csv")
    assert pipeline.source.table_schema == str(tmp_path / "schema.yaml")
    assert pipeline.store_path == tmp_path / "runs" / "table.zarr"
    assert pipeline.output_path == tmp_path / "runs" / "table"


def test_store_and_output_have_names_where_none_are_given(document, write, tmp_path):
    del document["store"], document["output"]
    pipeline = load_pipeline(write(document))
    assert pipeline.store_path == tmp_path / "runs" / "table.zarr"
    assert pipeline.output_path == tmp_path / "runs" / "table"


def test_a_resolved_pipeline_reads_back_equal(document, write):
    pipeline = load_pipeline(write(document))
    again = load_pipeline(write(dump_yaml(pipeline.to_document()), "resolved.yaml"))
    assert again == pipeline


def parts_of(annotation):
    """An annotation and all that it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from parts_of(part)


def models_below(model):
    """A model, and those of its fields."""
    yield model
    for field in model.model_fields.values():
        for part in parts_of(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from models_below(part)


MODELS = [*dict.fromkeys([*models_below(Pipeline), *(section_of_source(kind) for kind in SOURCES)])]


def paths_of(model):
    """The fields that are declared as paths, with their keys."""
    return {name: one.alias or name for name, one in model.model_fields.items() if PATH in one.metadata}


@pytest.mark.parametrize("model", [*filter(paths_of, MODELS)], ids=lambda model: model.__name__)
def test_a_relative_path_with_a_variable_names_the_same_place_in_the_saved_pipeline(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PART", "part")
    paths = paths_of(model)
    resolved = dict.fromkeys(one.alias or name for name, one in model.model_fields.items())
    section = model.model_construct(**resolved | {key: f"part/{key}" for key in paths.values()})
    written = {key: f"${{PART}}/{key}" for key in paths.values()}
    saved = written_paths(section, written, "pipeline.yaml", tmp_path)
    resolve_paths(section, tmp_path)
    for name, key in paths.items():
        assert expand_environment(saved[key], "") == getattr(section, name) == str(tmp_path / "part" / key)


def test_a_path_that_may_be_left_out_is_marked_as_a_whole():
    """``Annotated[str | None, PATH]``: of ``Annotated[str, PATH] | None`` pydantic hides the mark."""
    for model in MODELS:
        for name, one in model.model_fields.items():
            assert PATH not in parts_of(one.annotation), f"{model.__name__}.{name}"


def test_a_saved_pipeline_reads_its_relative_paths_from_elsewhere(document, write, tmp_path, monkeypatch):
    monkeypatch.setenv("PART", "part")
    document["source"] |= {"path": ["${PART}/a.csv", "b.csv"], "schema": "${PART}/schema.yaml"}
    document["store"] = {"path": "${PART}/store.zarr"}
    document["cluster"] = {"kind": "local", "local_directory": "${PART}/tmp"}
    document["checkpoint"] = {"path": "${PART}/kept"}
    pipeline = load_pipeline(write(document))
    elsewhere = tmp_path / "runs" / "one"
    elsewhere.mkdir(parents=True)
    (elsewhere / "pipeline.yaml").write_text(dump_yaml(pipeline.to_document()), encoding="utf-8")
    again = load_pipeline(elsewhere / "pipeline.yaml")
    assert again == pipeline
    assert again.source.path == [str(tmp_path / "part/a.csv"), str(tmp_path / "b.csv")]
    assert again.cluster.local_directory == str(tmp_path / "part/tmp")


def test_overrides_are_read_as_yaml_before_variables_are_expanded(document, write, tmp_path, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    document["source"]["path"] = "${NOWHERE}/table.csv"
    path = write(document)
    assert "environment variable NOWHERE is not set" in fault_of(path)
    pipeline = load_pipeline(path, ["source.path=table.csv", "select.gamma=1e-1", "split.test=0.5", "split.by=order"])
    assert pipeline.source.path == str(tmp_path / "table.csv")
    assert pipeline.selections["message"].gamma == 0.1
    assert (pipeline.split.test, pipeline.split.by) == (0.5, "order")


def test_an_override_reaches_into_lists_and_makes_sections(document, write):
    document["select"] = [{"method": "message"}, {"method": "message", "label": "wide"}, {"method": "message"}]
    pipeline = load_pipeline(write(document), ["select.1.n_subsets=7", "cluster.kind=threads", "split=null"])
    assert list(pipeline.selections) == ["message-1", "wide", "message-3"]
    assert pipeline.selections["wide"].n_subsets == 7
    assert pipeline.cluster.kind == "threads"
    assert pipeline.split is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("x", "--set x: expected key.path=value"),
        ("=3", "--set =3: expected key.path=value"),
        ("a..b=3", "--set a..b=3: expected key.path=value"),
        ("select.method.x=3", "--set select.method.x=3: select.method is 'message', which has no key 'x'"),
        ("evaluate.metrics.3=r2", "expected an index below 1 of the list evaluate.metrics, found '3'"),
        ("select=[", "--set select=[:1:2: not valid YAML"),
        ("select.gamma=!!python/none x", "tags are never executed"),
    ],
)
def test_an_override_that_goes_nowhere_is_refused(document, write, override, message):
    document["evaluate"] = {"metrics": ["mse"]}
    assert message in fault_of(write(document), override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("select.n_subset=3", "select.n_subset: unknown key (did you mean 'n_subsets'?)"),
        ("clustr.kind=none", "clustr: unknown key (did you mean 'cluster'?)"),
        ("source.schem=x", "source.schem: unknown key (did you mean 'schema'?)"),
        ("source.table_schema=x", "source.table_schema: unknown key"),
        ("source.kind=cvs", "source.kind: expected one of csv, parquet, sklearn, zarr"),
        (
            "select.method=mesage",
            "select.method: expected one of message, online_substitution,",
        ),
        ("select.method=mesage", "found 'mesage' (did you mean 'message'?)"),
        ("select=message", "select: expected a mapping of keys to values, found 'message'"),
        ("select=[]", "select: list should have at least 1 item"),
        ("select.n_subsets=many", "select.n_subsets: expected a valid integer, found 'many'"),
        ("select.n_subsets=true", "select.n_subsets: expected a valid integer, found True"),
        ("select.n_subsets=0", "select.n_subsets: expected greater than or equal to 1, found 0"),
        ("select.criterion=aic", "select.criterion: expected 'vote', 'bic', 'ric' or 'ebic', found 'aic'"),
        ("select=[{method: message, label: a}, {method: message, label: a}]", "duplicate label 'a'"),
        ("select.label=../up", "select.label: expected a label that does not begin or end with a dot"),
        ("select.label=..", "select.label: expected a label that does not begin or end with a dot"),
        ("select.label=.", "select.label: expected a label that does not begin or end with a dot"),
        ("select.label=.hidden", "select.label: expected a label that does not begin or end with a dot"),
        ("select.label=a/b", "select.label: string should match pattern"),
        *(
            (f"select.label={name}", "is the name of another file of a run folder; choose another label")
            for name in FILES
        ),
        ("select.label=Report.HTML", "'Report.HTML' is the name of another file of a run folder"),
        (f"select.label={'x' * 300}", "select.label: expected a label of at most 100 bytes, found 300 (xxx"),
        (
            "select=[{method: message, label: Kurz}, {method: message, label: kURZ}]",
            "select: the labels 'Kurz' and 'kURZ' may name the same folder; change one of them",
        ),
        ("name=.", "name: expected a name that does not begin or end with a dot"),
        ("name=..", "name: expected a name that does not begin or end with a dot"),
        ("name=run.unfinished", "name: 'run.unfinished' ends like the folder of an unfinished run"),
        (f"name={'n' * 300}", "name: expected a name of at most 100 bytes, found 300 (nnn"),
        (f"output={'o' * 300}", "the file name is too long (300 bytes); shorten it"),
        ("cluster.memory_limit=1e400GiB", "cluster.memory_limit: expected a size, found '1e400GiB'"),
        ("split.test=2", "split: test: expected a proportion between 0 and 1, found 2"),
        ("evaluate.metrics=[mse, r3]", "evaluate.metrics.1: expected 'mse', 'rmse', 'mae', 'r2'"),
        ("cluster.kind=kubernetes", "start it with dask-kubernetes and set the address of its scheduler"),
        ("cluster.kind=lokal", "found 'lokal' (did you mean 'local'?)"),
        ("cluster.kind=address", "cluster: address: this key is required with kind: address"),
        ("cluster.address=tcp://a:1", "cluster: address: has no effect with kind: none"),
        ("cluster.memory_limit=lots", "cluster.memory_limit: expected a size, found 'lots'"),
        ("cluster.memory_limit=0", "cluster.memory_limit: expected greater than or equal to 1, found 0"),
        ("version=2", "version: expected 1, found 2"),
        ("name=a/b", "name: string should match pattern"),
        ("source=null", "expected a source or a store at"),
    ],
)
def test_every_wrong_word_has_its_place_and_what_was_expected(document, write, override, message):
    path = write(document)
    fault = fault_of(path, override)
    assert message in fault
    assert fault.startswith((str(path), "ooooo"))


def test_an_int_stands_for_a_share_only_between_the_ends(document, write):
    document["split"] = {"test": 1}
    assert "expected a proportion between 0 and 1" in fault_of(write(document))


def test_a_column_may_say_which_rows_are_for_testing(document, write):
    document["split"] = {"by": "part", "test": "late"}
    assert load_pipeline(write(document)).split.test == "late"


@pytest.fixture(scope="module")
def schema():
    """The JSON schema of pipelines, which takes a tenth of a second."""
    return json_schema("pipeline")


@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_of_a_method_can_be_written_with_its_default_and_its_meaning(schema, method):
    parameters = inspect.signature(find_method(method)).parameters
    objects = ("estimator", "memory_limit", "client", "schema", "verbose")
    in_python = {name: item.default for name, item in parameters.items() if name not in objects}
    fields = section_of(method).model_fields
    in_yaml = {name: item.default for name, item in fields.items() if name not in ("method", "label")}
    assert in_yaml == in_python
    assert all(fields[name].description for name in in_yaml)
    (model,) = [item for item in schema["$defs"].values() if item.get("title") == section_of(method).__name__]
    assert model["properties"]["method"]["const"] == method
    assert set(model["properties"]) == {*in_yaml, "method", "label"}


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("{method: message, loss: hinge}", "select.loss: this method does not take 'hinge': it has no likelihood"),
        (
            "{method: message, loss: hunge}",
            "select.loss: expected 'auto', 'squared', 'logistic', 'poisson', 'huber' or",
        ),
        ("{method: fgm, C: 0}", "select.C: expected greater than 0, found 0"),
        ("{method: fgm, C: validate}", "select.C: expected 'validation', found 'validate'"),
        ("{method: mission, class_weight: {1: x}}", "select.class_weight.1: expected a valid number, found 'x'"),
        ("{method: online_substitution, order: 3}", "select.order: "),
        ("{method: message, n_subset: 3}", "select.n_subset: unknown key (did you mean 'n_subsets'?); known keys: alw"),
        ("[{method: message}, {method: fgm, tol: 1}]", "select.1.tol: expected less than 1, found 1"),
        ("[{method: message}, {methd: fgm}]", "select.1.method: this key is required; add it"),
        ("{method: fgm, tol: .nan}", "select.tol: "),
    ],
)
def test_what_a_method_cannot_be_told_has_its_place(document, write, select, message):
    assert message in fault_of(write(document), f"select={select}")


@pytest.mark.parametrize("kind", SOURCES)
def test_every_option_of_a_source_can_be_written(schema, kind):
    (model,) = [
        item for item in schema["$defs"].values() if item.get("properties", {}).get("kind", {}).get("const") == kind
    ]
    of_models = {"names", "unlabelled"}  # rows without a target are for a model that is applied, in some kinds alone
    assert set(model["properties"]) - {"kind", *of_models} == set(options_of(kind)) - of_models


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["select: 3", "cluster: {kind: loca}", "extra: 1", "version: '1'"])
def test_the_json_schema_refuses_what_the_model_refuses(schema, document, bad):
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, **parse_yaml(bad, "test")}, schema)


def test_a_resolved_pipeline_keeps_to_its_json_schema(schema, document, write):
    resolved = json.loads(json.dumps(load_pipeline(write(document)).to_document()))
    jsonschema.validate(resolved, schema)
    assert Pipeline.model_validate(resolved)


@pytest.mark.parametrize("refit", ["{}", "{by: method}"])
def test_without_a_refit_of_its_own_a_pipeline_takes_that_of_the_method(document, write, refit):
    path = write(document)
    assert load_pipeline(path, [f"refit={refit}"]).refit == load_pipeline(path).refit
    assert load_pipeline(path).to_document()["refit"] == {"by": "method", "ridge": None}


def test_a_refit_is_by_what_there_is_and_a_ridge_goes_with_it(document, write):
    path = write(document)
    assert load_pipeline(path, ["refit={by: ridge, ridge: 0}"]).refit.ridge == 0.0
    assert "refit.by: expected" in fault_of(path, "refit={by: lasso}")
    assert "write by: ridge" in fault_of(path, "refit={by: ols, ridge: 0.1}")
    assert "write by: ridge" in fault_of(path, "refit={ridge: 0.1}")
    assert "refit.ridge" in fault_of(path, "refit={by: ridge, ridge: -1}")


def test_an_error_of_many_places_stays_readable(document, write):
    document["select"] = [{"method": "message", f"wrong{k}": "x" * 5000} for k in range(200)]
    fault = fault_of(write(document))
    assert len(fault) < 6000
    assert "and 193 more places" in fault.splitlines()[-1]
    document["select"] = {"method": "x" * 5000, "k": ["y" * 9000]}
    assert len(fault_of(write(document))) < 1000
