"""What errors are about: a topic for each family of them, with a name that the error tells.

An error knows where it was made; `topic_of` finds the family by its class and module. `daskfs explain TOPIC` prints the
explanation, and the page of errors of the documentation has it under the same name, with every message of the family.
"""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A family of errors: its title, where they come from (``"module"`` or ``"module:Class"``), and what to do."""

    title: str
    raised: tuple[str, ...]
    text: str


TOPICS: dict[str, Topic] = {
    "yaml-files": Topic(
        "YAML files, keys and values",
        ("documents",),
        """
        A pipeline or table schema is one YAML mapping, read strictly: a key that stands twice, a tag (`!name`)
        and an unknown key are refused, with the place and the nearest known key. All faults of a file are told
        at once, one a line. `no`, `on` and `2006-12-16` are words here, not truths and dates; numbers that are
        meant as words need quotes. `${NAME}` is replaced by an environment variable, which must be set.

        `daskfs validate FILE` checks without computing; `daskfs schema pipeline` prints the JSON Schema for an
        editor.
        """,
    ),
    "pipeline-files": Topic(
        "Pipelines whose parts do not fit together",
        (
            "pipeline.config",
            "pipeline.planning:ConfigError",
            "pipeline.schemas",
            "pipeline.cost",
            "matrix.base:ConfigError",
            "store.feature_store:ConfigError",
        ),
        """
        Each key is right by itself, but not with the others: a store and a source that disagree, more features
        asked for than there are, a split by a column that does not exist, a metric that the source cannot give,
        an override `--set key.path=value` below a key that has no such part. The message names the key by its
        path; `daskfs plan FILE` tells of all of this before anything is read.
        """,
    ),
    "drafts": Topic(
        "Files that init writes",
        ("pipeline.drafting",),
        """
        `daskfs init` does not replace a pipeline or table schema that you may have changed. Give another folder
        with `--output`, or `--force` to write both anew.
        """,
    ),
    "command-line": Topic(
        "Options of commands",
        ("cli:ConfigError",),
        """
        An option that has no effect where it was given: a format, a model or a target that something else
        decides already. `daskfs COMMAND --help` says what each is for.
        """,
    ),
    "parameters": Topic(
        "Parameters of methods",
        (
            "parameters",
            "kernels.lasso.criteria",
            "methods",
            "selectors:ConfigError",
            "baselines:ConfigError",
            "model_selection:ConfigError",
            "model_selection:DataError",
            "matrix.split",
            "pipeline.explaining",
        ),
        """
        A parameter has a value outside its range, a misspelt name, or one that contradicts another. The message
        says what was expected. `daskfs explain METHOD` lists all parameters of a method with their ranges and
        default values; they are the same in Python, in `select:` of a pipeline and behind `--set`.
        """,
    ),
    "losses": Topic(
        "Losses and what they are for",
        ("losses",),
        """
        A loss wants a kind of target: `squared` and `huber` numbers, `logistic` and the hinges two classes,
        `multinomial` any number of them, `poisson` counts. `loss="auto"` decides by the target: texts,
        categories and few whole numbers are classes, other numbers are regressed. Where codes are written as
        numbers, name the loss.
        """,
    ),
    "target": Topic(
        "The target",
        (
            "selectors.shared.targets",
            "selectors.mission.fit",
            "selectors.online_substitution.target",
            "sources.constants",
        ),
        """
        What is to be predicted is missing, constant, has one class only, is negative where counts are wanted,
        or holds a class that was not there before. A constant target leaves nothing to explain: check the
        column, and whether a filter left one class. With `partial_fit` name all classes at the first call
        (`classes=`).
        """,
    ),
    "values": Topic(
        "Values that cannot be computed with",
        (
            "store.row_checks",
            "matrix.base:DataError",
            "selectors.message.tasks",
            "selectors.mission.tasks",
            "selectors.mission.model",
            "selectors.shared.rows",
            "store.sparse.sorted_runs",
            "matrix.arrays",
            "sources.arrow_table:DataError",
            "sources.undeclared",
            "selectors.fgm.candidates:DataError",
            "selectors.message.selector:DataError",
            "selectors.mission.selector:DataError",
        ),
        """
        NaN, infinity, text where numbers were expected, or numbers so large that their squares overflow. The
        message names the column and the row. Missing values are refused everywhere unless you say what takes their
        place: in a table's schema (`missing: mean`, `zero`, `drop` or a number; `missing_indicator: true` adds a
        feature for them), which `daskfs init FILE` writes; for data frames with `schema="judge"`; in `ingest`
        with `missing=`. Fill arrays in first, for example with scikit-learn's `SimpleImputer`. Whole columns of
        huge numbers (a time in nanoseconds, an identifier) want another unit, or to be left out.
        """,
    ),
    "shapes": Topic(
        "Rows, columns and blocks that do not fit together",
        (
            "selectors.inputs",
            "selectors.predicting",
            "matrix.incoming",
            "matrix.passing",
            "matrix.names",
            "selectors.from_blocks",
            "matrix.split:DataError",
            "selectors.opening",
            "store.row_vectors",
            "store.writer:DataError",
            "store.sparse.writer:DataError",
            "store.names",
            "store.sparse.names",
            "sources.arrays",
            "metrics",
            "selectors.mission.count_sketch:DataError",
            "selectors.message.fits",
        ),
        """
        X and y have different numbers of rows, new data other columns than those of the fit, two columns one
        name, or blocks came in another order than said. Frames are matched by the names of their columns,
        arrays by position. Blocks are lists, generators, Dask's delayed objects or functions; those that pass
        by once cannot be read again, so methods that need several passes want a list or a store.
        """,
    ),
    "columns-that-arrive": Topic(
        "Columns that arrive one block after the other",
        (
            "selectors.online_substitution.stream",
            "selectors.online_substitution.group_stream",
            "selectors.online_substitution.groups",
            "selectors.online_substitution.selector:DataError",
        ),
        """
        Blocks of columns of the same rows are expected, each with its names, and the target with the first.
        What has passed by is not kept. Groups of columns need blocks from a list or a store (`fit_blocks`), for
        a group may lie in several of them.
        """,
    ),
    "groups": Topic(
        "Groups of columns",
        ("feature_maps.groups", "selectors.grouped"),
        """
        `feature_groups` is a label for each column, lists of columns, a tree, a table of features and groups,
        or `"schema"`: the columns of the table that was ingested. Groups that overlap are for `FGM` alone.
        `"schema"` needs a store made from a table by this version; ingest it again.
        """,
    ),
    "feature-maps": Topic(
        "Features that a map makes",
        ("feature_maps",),
        """
        A map that does not exist, a parameter that it does not have, columns that it does not take: shares and
        counts for `additive_chi2`, at most some millions of columns for `pairs`, columns that are not centred
        where they are sparse. `daskfs explain fgm` names the maps; `between` and `within` restrict the
        products.
        """,
    ),
    "memory-limit": Topic(
        "Memory limits",
        (":PlanError",),
        """
        A plan counts what each process will hold before anything is read, and refuses what exceeds the limit.
        The message names the largest term and a limit that is enough, or a setting that needs less: narrower
        tiles, more subsets, fewer features. `daskfs plan FILE` prints all terms. A limit is of one process
        (`memory_limit: 4GiB` of a cluster is of each worker). A process takes some 200 MiB before its first
        block; `daskfs warmup` compiles the kernels once, so that small workers need no memory for it.
        """,
    ),
    "new-rows": Topic(
        "New rows for a run's result",
        ("applied", "sources.applied_table", "sources.applied_genotypes"),
        """
        `daskfs apply` and `daskfs.load` encode new rows as those of the run were. The columns of which selected
        features are made must be there, under their names; others may be missing, and so may the target. Variants are
        found by name and alleles; covariates of new samples are named by `--covariates`. Of the run `model.json` is
        needed, which runs of before do not have: run the pipeline again with `--force`. Categories that the run
        did not have are refused where its table schema says `unseen: error`; `--unseen zero` lets them pass.
        """,
    ),
    "run-folders": Topic(
        "Folders of runs",
        ("cli:RunError", "pipeline.folder", "pipeline.run", "pipeline.following", "report", "result"),
        """
        A run's folder holds one run. A finished one is not replaced without `--force`; an interrupted one goes
        on with `daskfs run --resume FOLDER`, by the same version and with the same pipeline, so that the
        result is that of a run without an interrupt. `RUNNING` in it says which process works there; where that
        process is gone, the message says so and how to go on.
        """,
    ),
    "formats": Topic(
        "Files that are missing, or of a format that is not read",
        (
            "sources.files",
            "sources.registry",
            "sources.looking",
            "sources.options",
            "sources.parts",
            "sources.ingest",
            "sources.other_formats",
        ),
        """
        The path, the pattern or the ending. Read are CSV and its relatives (`.gz .bz2 .xz .zst` too), Parquet,
        `.npz`, `.npy`, Zarr, AnnData, LIBSVM, Vowpal Wabbit, texts, FASTA, PLINK and VCF Zarr: the page of
        formats has them all, and how to turn others into one of them. `kind:` says what a file is where its
        name does not. Patterns in quotes (`"data/*.csv"`) are expanded by daskfs, in the order of their names.
        """,
    ),
    "text-tables": Topic(
        "Text tables",
        (
            "sources.csv",
            "sources.csv_faults",
            "sources.csv_records",
            "sources.csv_types",
            "sources.sniffing",
            "sources.text",
        ),
        """
        A line with too many or too few fields, an encoding that is not UTF-8, a value that is not of the type
        that its column was given. The message names file, line and column. `daskfs init FILE` finds out
        delimiter, encoding, decimal sign and types by looking at the whole file, and writes them down;
        `--delimiter '\\t'` and `encoding:` say what it should not guess. Types that only later rows contradict
        are corrected in the schema.
        """,
    ),
    "table-schemas": Topic(
        "Table schemas",
        ("sources:SchemaError", "sources.roles", "sources.schema_inference", "sources.survey", "sources.table_schema"),
        """
        A table schema says of each column its type, its role (feature, target, weight, split, id, ignore) and
        how it becomes numbers. It must name the columns that the table has, each once, and one target.
        Categories get a column for each level up to a limit; with more, use `one_hot: sparse`, `min_count`, or
        ignore the column. `daskfs init FILE` writes a schema with a reason beside each line; `daskfs schema
        table` prints its JSON Schema.
        """,
    ),
    "frames": Topic(
        "Parquet files and frames",
        (
            "sources.parquet",
            "sources.arrow_table:SourceError",
            "sources.dataframe",
            "sources.arrow_files",
            "selectors.tables",
            "sources.table",
        ),
        """
        Columns that are not numbers, dates, truths or categories (lists, structs, objects) have no place among
        features: drop them, or make columns of them. Lazy frames of polars are collected first. Partitions of
        Dask frames must have the same columns.
        """,
    ),
    "arrays": Topic(
        "Array files and Dask arrays",
        ("sources.npy", "sources.npy_array", "sources.zarr_array", "sources.dask_array", "store.foreign:SourceError"),
        """
        Expected is a matrix of numbers, rows by columns, with one target for each row. `.npz` files hold X and
        y under these names, or those given. Dask arrays need known chunk sizes (`compute_chunk_sizes()`). Zarr
        arrays of format 2 and 3 are read.
        """,
    ),
    "sample-data": Topic(
        "Built-in and drawn data",
        ("sources.sklearn_sets", "sources.synthetic", "sources.synthetic_designs"),
        """
        `sklearn:NAME` is a set that scikit-learn ships (`iris`, `diabetes`, `digits`, `breast_cancer`, `wine`,
        ...), or one in its cache; nothing is fetched. `kind: synthetic` draws data of a design; its numbers
        must be possible ones.
        """,
    ),
    "genotypes": Topic(
        "Genotypes",
        (
            "sources.plink",
            "sources.plink_files",
            "sources.phenotypes",
            "sources.vcf_zarr",
            "sources.genotypes",
            "sources.genotype_matrix",
        ),
        """
        `.bed`, `.bim` and `.fam` belong together: the same name, as many variants as lines of `.bim`, as many
        samples as lines of `.fam`. Phenotypes and covariates are matched by FID and IID, in any order. VCF Zarr
        is what bio2zarr writes, with `call_genotype` or dosages. `missing:` says what becomes of missing calls.
        """,
    ),
    "cells": Topic(
        "AnnData files",
        ("sources.sparse.anndata",),
        """
        X or a layer, columns of `obs` as target and labels, names of `var`. `.h5ad` needs `pip install
        "daskfs[cells]"`.
        """,
    ),
    "sparse-rows": Topic(
        "Rows of entries",
        ("sources.sparse",),
        """
        Files of LIBSVM or Vowpal Wabbit, clicks, sparse matrices, bags of lines. The message names the line and
        what in it is not as the format has it. Features are 64-bit ids there, so dense rows of them cannot be
        had; methods that take entries do (`mission`, `fgm`, `message`).
        """,
    ),
    "texts": Topic(
        "Texts",
        ("sources.sparse.text", "sources.sparse.documents", "sources.sparse.ngrams"),
        """
        JSON lines, CSV or a folder of files, one document each; `text:` and `target:` name the fields. Options
        of n-grams are those of scikit-learn's vectorizers.
        """,
    ),
    "sequences": Topic(
        "Sequences",
        ("sources.sparse.fasta", "sources.sparse.fragments", "sources.sparse.kmers", "sources.sparse.sequences"),
        """
        FASTA or FASTQ with a label for each sequence: of the file, of the header by a regular expression, or of
        a table. `k` is a length or a pattern of gaps.
        """,
    ),
    "pairs-of-features": Topic(
        "Pairs of sparse features",
        ("sources.sparse.pairs",),
        """
        `interactions: all` or pairs of namespaces, `[[user, ad]]`, of sources that have namespaces. Rows with
        many entries have very many pairs; a limit protects from those.
        """,
    ),
    "streams": Topic(
        "Streams and runs without a store",
        (
            "pipeline.stream_plan",
            "pipeline.stream_run",
            "sources.sparse.streams",
            "sources.sparse.bags",
            "selectors.mission.from_streams",
            "selectors.mission.keeping",
            "selectors.mission.entries",
            "selectors.mission.part_tasks",
            "selectors.mission.predicting",
        ),
        """
        What passes by once is learnt from by `mission` and the baselines that take streams (`store: none`). It
        cannot be read again, so there is no refit, no second selection and no random split. Rows for testing
        are every so many of them.
        """,
    ),
    "sketches": Topic(
        "Sketches and saved models",
        ("selectors.mission.count_sketch", "selectors.mission.saved"),
        """
        A file that is no sketch or model of daskfs, is damaged, or was made by a newer version or with another
        hash. Sketches are added only where hashes, buckets and seed are the same.
        """,
    ),
    "store-exists": Topic(
        "Something exists where a store is to be written",
        (":StoreExistsError",),
        """
        A store is never overwritten. Remove it, or take another path. A store that another process writes is
        named with that process; what an interrupted one left (`NAME.unfinished`) goes on when the same ingest
        is started again.
        """,
    ),
    "store-format": Topic(
        "Not a feature store",
        (":StoreFormatError",),
        """
        Nothing there, another kind of folder, a store that was not finished, or one of a newer version. `daskfs
        info STORE` describes a store; `daskfs ingest SOURCE STORE` makes one.
        """,
    ),
    "damaged-stores": Topic(
        "Damaged stores",
        (":CorruptStoreError",),
        """
        Every read is held against checksums. A chunk is missing, cut, changed or in another one's place;
        nothing of it was used. `daskfs verify STORE` lists all damaged parts. Copy the store again, or ingest
        its source again: the same source gives the same bytes.
        """,
    ),
    "stores": Topic(
        "Stores that cannot be written or read",
        (":StoreError",),
        """
        A full disk, missing permissions, a store that changed while it was open, or a folder that others may
        write to.
        """,
    ),
    "object-stores": Topic(
        "Object stores and HTTP",
        ("objects", ":StorageError"),
        """
        `s3://`, `gs://`, `az://` and `https://` need `pip install "daskfs[cloud]"`. What fails for a moment is
        tried again for a while. "refused" is a matter of credentials, which processes take from their own
        environment; `storage:` in a pipeline sets region and endpoint. Nothing is written over HTTP.
        """,
    ),
    "clusters": Topic(
        "Clusters",
        ("cluster",),
        """
        A scheduler that does not answer, jobs that die, workers lost again and again, certificates that are
        missing. The last lines of a job's log are in the message. Workers that die on one task mostly lack
        memory: see the plan, and give `memory_limit` what jobs really have. Scripts that start processes need
        `if __name__ == "__main__":`. `connect_timeout_s` and `wait_timeout_s` say how long is waited.
        """,
    ),
    "lost-nodes": Topic(
        "A central node that was lost",
        ("selectors.asy_os",),
        """
        The process that holds the common state of asynchronous online substitution was lost several times. Each
        time its work went on from what the workers held; more losses point to a lack of memory or to a machine
        that is taken away.
        """,
    ),
}

OF_CLASS = {
    "ConfigError": "parameters",
    "SchemaError": "table-schemas",
    "SourceError": "formats",
    "DataError": "values",
    "PlanError": "memory-limit",
    "StoreExistsError": "store-exists",
    "StoreFormatError": "store-format",
    "CorruptStoreError": "damaged-stores",
    "StoreError": "stores",
    "StorageError": "object-stores",
    "RunError": "run-folders",
}
"""Where the module says nothing: errors that parts of other projects raise."""


def _by_place() -> dict[str, str]:
    return {place: name for name, topic in TOPICS.items() for place in topic.raised}


def topic_of(error: str, module: str) -> str | None:
    """Return the topic of errors of a class that a module raises.

    The class alone decides where it is a topic of its own (``":PlanError"``); otherwise the longest part of the
    module's name that is named, with the class before without.

    Examples
    --------
    >>> topic_of("SourceError", "daskfs.sources.csv")
    'text-tables'
    >>> topic_of("PlanError", "daskfs.store.writer")
    'memory-limit'
    >>> topic_of("DataError", "somewhere.else")
    'values'
    """
    places = _by_place()
    if f":{error}" in places:
        return places[f":{error}"]
    parts = module.split(".")[1:] if module.split(".")[0] == "daskfs" else []
    for n_parts in range(len(parts), 0, -1):
        place = ".".join(parts[:n_parts])
        found = places.get(f"{place}:{error}", places.get(place))
        if found is not None:
            return found
    return OF_CLASS.get(error)
