"""The pipeline of `daskfs select`: its options as the document that `daskfs run` would read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from daskfs import errors
from daskfs.documents import parse_yaml
from daskfs.files import Location
from daskfs.pipeline.config import apply_override
from daskfs.pipeline.drafting import source_of_file
from daskfs.pipeline.genotype_drafts import are_genotypes, sections_of_genotypes
from daskfs.pipeline.selections import key_of_n_features
from daskfs.store.feature_store import open_store

ConfigError = errors.ConfigError.about("command-line")


def short_pipeline(
    data: Location | None,
    method: str,
    *,
    target: str | None = None,
    phenotypes: str | None = None,
    covariates: str | None = None,
    filters: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    n_features: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    feature_map: str | None = None,
    test: float = 0.2,
    random_state: int = 0,
    cluster: Mapping[str, Any] | None = None,
    output: str | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return a pipeline's document, and lines that explain what was decided about a table.

    Parameters
    ----------
    data : Path or ObjectPath or None
        A store, a file to convert to one, or genotypes; None for standard input, which is read without a store.
    method : str
    target, phenotypes, covariates, dtype : str, optional
        For files: column to predict; tables of genotypes; dtype of the store.
    filters : mapping, optional
        Of genotypes: which samples and variants to use, entries of the section `source`; None leaves one out.
    n_features : int, optional
    parameters : mapping, optional
        Parameters of the method.
    overrides : sequence of str
        More of them, as ``KEY=VALUE``, read as YAML.
    feature_map : str, optional
        Feature map, as YAML.
    test : float
        Fraction of rows held out; 0 for none.
    random_state : int
    cluster : mapping, optional
        Section of the document.
    output : str, optional
        Run folder; default: ``runs/<name of the data>-<method>``.

    Raises
    ------
    ConfigError
        An option does not apply to the data.
    """
    source, stem, said = None, "stream" if data is None else data.resolve().stem, list[str]()
    genotypes: dict[str, Any] = {}
    filters = filters or {}
    of_genotypes = {"phenotypes": phenotypes, "covariates": covariates, **filters}
    if data is not None and are_genotypes(data):
        if dtype is not None:
            raise ConfigError("genotypes are read without a store", "--dtype", "leave the option out")
        stem, genotypes = sections_of_genotypes(data, target, phenotypes, covariates, method, **filters)
    elif any(value is not None for value in of_genotypes.values()):
        first = next(name for name, value in of_genotypes.items() if value is not None)
        option = f"--{first.replace('_', '-')}"
        raise ConfigError("expected genotypes", option, "leave out this option, which is for genotypes")
    elif (
        data is not None
        and data.suffix != ".zarr"
        and (data.is_file() or (isinstance(data, Path) and not data.exists()))
    ):
        stem, source, said = source_of_file(data, target, Path("runs"))
        data = Path("runs") / f"{stem}.zarr"
    elif target is not None or dtype is not None:
        option = "--target" if target is not None else "--dtype"
        raise ConfigError(f"the store already defines its {option[2:]}", option, "leave the option out, or pass a file")
    elif data is not None:
        open_store(data)
    selection = {"method": method, "random_state": random_state, **genotypes.pop("select", {}), **(parameters or {})}
    if n_features is not None:
        selection[key_of_n_features(method)] = n_features
    for override in overrides:
        apply_override(selection, override)
    store = "none" if data is None else {"path": getattr(data, "address", str(data))}
    if isinstance(store, dict) and dtype is not None:
        store["dtype"] = dtype
    features = None
    if feature_map is not None:
        features = parse_yaml(feature_map, "--map")
        features = features if isinstance(features, dict) else {"map": features}
    by_family = genotypes.pop("split", {})
    document = {
        "version": 1,
        "name": f"{stem}-{method}",
        "source": source,
        "store": store,
        "split": {"test": test, "random_state": random_state, **by_family} if test and data is not None else None,
        "features": features,
        "select": selection,
        "cluster": cluster,
        "output": output or f"runs/{stem}-{method}",
    }
    return document | genotypes, said
