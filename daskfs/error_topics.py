"""Error topics: each family of errors has a topic, whose name is part of the error (`daskfs.errors`).

`daskfs explain TOPIC` prints the explanation. The page of errors of the documentation has it under the same name, with
every message of the family.
"""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A family of errors: its title, and what to do."""

    title: str
    text: str


TOPICS: dict[str, Topic] = {
    "yaml-files": Topic(
        "YAML files, keys and values",
        """
        A pipeline or table schema is one YAML mapping. It is read strictly: duplicate keys, tags (`!name`) and
        unknown keys are errors; the message names the place and the most similar known key. All errors of a
        file are reported together, one per line. `no`, `on` and `2006-12-16` are strings here, not Booleans and
        dates; numbers that are meant as strings need quotes. `${NAME}` is replaced by the environment variable,
        which must be set.

        `daskfs validate FILE` checks without computing; `daskfs schema pipeline` prints the JSON Schema for an
        editor.
        """,
    ),
    "pipeline-files": Topic(
        "Pipelines whose parts do not fit together",
        """
        Each key is valid by itself, but not together with the others. Examples: a store that was made from
        another source, more features requested than there are, a split by a column that does not exist, a
        metric that is not available for the source, an override `--set key.path=value` whose path does not
        exist. The message names the key by its path. `daskfs plan FILE` reports all of this before data are read.
        """,
    ),
    "drafts": Topic(
        "Files that init writes",
        """
        `daskfs init` does not replace an existing pipeline or table schema, since you may have edited it. Choose
        another folder with `--output`, or overwrite both files with `--force`.
        """,
    ),
    "command-line": Topic(
        "Options of commands",
        """
        An option has no effect or conflicts with the other arguments: a format, a model or a target that is
        already determined. `daskfs COMMAND --help` explains each option.
        """,
    ),
    "parameters": Topic(
        "Parameters of methods",
        """
        A parameter has a value outside its range, a misspelt name, or contradicts another parameter. The message
        says what was expected. `daskfs explain METHOD` lists all parameters of a method with their ranges and
        default values. They are the same in Python, in `select:` of a pipeline and with `--set`.
        """,
    ),
    "losses": Topic(
        "Losses and what they are for",
        """
        Each loss needs a kind of target: `squared` and `huber` numbers, `logistic` and the hinge losses two
        classes, `multinomial` two or more classes, `poisson` counts. `loss="auto"` decides by the target: text,
        categories and a few distinct integers are classes, other numbers are regressed. Set the loss if classes
        are coded as numbers.
        """,
    ),
    "target": Topic(
        "The target and the weights of rows",
        """
        The target is missing, is constant, has only one class, is negative although the loss needs counts, or
        contains a new class. A target with a single value cannot be modelled: check the column, and whether a filter
        removed all classes but one. With `partial_fit`, pass all classes in the first call (`classes=`).

        A row of weight 2 counts as two rows, and one of weight 0 not at all. If only the ratios of the weights
        matter, scale them to a mean of 1: weights that sum to 1 stand for data of a single row.
        """,
    ),
    "values": Topic(
        "Values that cannot be computed with",
        """
        NaN, infinity, text instead of numbers, or numbers so large that their squares overflow. The message names
        the column and the row. Missing values are errors unless you specify how to replace them: in a table
        schema (`missing: mean`, `zero`, `drop` or a number; `missing_indicator: true` adds a feature that marks
        them), which `daskfs init FILE` writes; for data frames with `schema="judge"`; in `ingest` with
        `missing=`. Impute arrays first, for example with scikit-learn's `SimpleImputer`. If a whole column has
        huge numbers (a time in nanoseconds, an identifier), change its unit or leave it out.
        """,
    ),
    "shapes": Topic(
        "Rows, columns and blocks that do not fit together",
        """
        X and y have different numbers of rows, new data have other columns than the training data, two columns
        have the same name, or blocks came in an unexpected order. Data frames are matched by column names,
        arrays by position. Blocks are lists, generators, Dask delayed objects or functions. Generators can be
        read only once, so methods that need several passes need a list or a store.
        """,
    ),
    "columns-that-arrive": Topic(
        "Columns that arrive one block after the other",
        """
        Pass blocks of columns of the same rows, each with its names, and the target with the first block.
        Earlier blocks are not kept. Groups of columns need blocks from a list or a store (`fit_blocks`),
        because a group may span several blocks.
        """,
    ),
    "groups": Topic(
        "Groups of columns",
        """
        `feature_groups` is a label for each column, lists of columns, a tree, a table of features and groups,
        or `"schema"`: one group for each column of the ingested table. Only `FGM` supports overlapping groups.
        `"schema"` needs a store that this version made from a table; ingest the table again.
        """,
    ),
    "feature-maps": Topic(
        "Feature maps",
        """
        The map or its parameter does not exist, or the map does not support these columns: `additive_chi2` needs
        proportions or counts, `pairs` at most some millions of columns, and sparse columns must not be centred.
        `daskfs explain fgm` lists the maps; `between` and `within` restrict the products.
        """,
    ),
    "memory-limit": Topic(
        "Memory limits",
        """
        The plan estimates the memory of each process before data are read, and refuses to exceed the limit.
        The message names the largest term and a sufficient limit, or a setting that needs less memory: narrower
        tiles, more subsets, fewer features. `daskfs plan FILE` prints all terms. The limit applies to one process
        (`memory_limit: 4GiB` of a cluster applies to each worker). A process takes about 200 MiB before its first
        block. `daskfs warmup` compiles the kernels once, so that small workers need no memory for compiling.
        """,
    ),
    "new-rows": Topic(
        "Predicting new rows with a run",
        """
        `daskfs apply` and `daskfs.load` encode new rows like the training data of the run. The source columns of
        the selected features must be present under their names; other columns and the target may be missing.
        Variants are matched by name and alleles; `--covariates` names the table of covariates of new samples. The
        run needs `model.json`, which older versions did not write: run the pipeline again with `--force`. New
        categories are errors if the table schema says `unseen: error`; `--unseen zero` accepts them.
        """,
    ),
    "run-folders": Topic(
        "Run folders",
        """
        A run folder holds one run. A finished run is replaced only with `--force`. An interrupted run is continued
        with `daskfs run --resume FOLDER`, by the same version and with the same pipeline, so that the result is
        that of an uninterrupted run. The file `RUNNING` names the process that works in the folder. If that
        process has ended, the message says so and how to continue.
        """,
    ),
    "formats": Topic(
        "Missing files and unsupported formats",
        """
        Check the path, the pattern or the file extension. Supported formats are CSV and similar text tables (also
        `.gz .bz2 .xz .zst`), Parquet, `.npz`, `.npy`, Zarr, AnnData, LIBSVM, Vowpal Wabbit, texts, FASTA, PLINK
        and VCF Zarr. The page of formats lists them all and shows how to convert others. `kind:` sets the format
        if the file name does not show it. daskfs expands quoted patterns (`"data/*.csv"`), sorted by name.
        """,
    ),
    "text-tables": Topic(
        "Text tables",
        """
        A line has too many or too few fields, the encoding is not UTF-8, or a value does not have the type of its
        column. The message names file, line and column. `daskfs init FILE` reads the whole file, infers
        delimiter, encoding, decimal sign and types, and writes them to the schema. Set `--delimiter '\\t'` and
        `encoding:` if the inference is wrong. If later rows contradict a type, correct it in the schema.
        """,
    ),
    "table-schemas": Topic(
        "Table schemas",
        """
        A table schema defines each column's type, role (feature, target, weight, split, id, ignore) and encoding.
        It must name the columns of the table, each once, and one target. Each level of a category becomes a
        feature, up to a limit; for more levels use `one_hot: sparse` or `min_count`, or ignore the column.
        `daskfs init FILE` writes a schema with a reason for each line; `daskfs schema table` prints its JSON
        Schema.
        """,
    ),
    "frames": Topic(
        "Parquet files and data frames",
        """
        Columns of lists, structs or objects cannot be features; only numbers, dates, Booleans and categories can.
        Convert these columns or drop them. Collect lazy polars frames first. All partitions of a Dask frame must
        have the same columns.
        """,
    ),
    "arrays": Topic(
        "Array files and Dask arrays",
        """
        Pass a numeric matrix of rows by columns, with one target for each row. `.npz` files contain X and y
        under these names or under names that you pass. Dask arrays need known chunk sizes
        (`compute_chunk_sizes()`). Zarr formats 2 and 3 are supported.
        """,
    ),
    "sample-data": Topic(
        "Built-in and simulated data",
        """
        `sklearn:NAME` is a data set included in scikit-learn (`iris`, `diabetes`, `digits`, `breast_cancer`,
        `wine`, ...) or present in its cache; nothing is downloaded. `kind: synthetic` simulates data from a
        design, whose parameters must be valid.
        """,
    ),
    "genotypes": Topic(
        "Genotypes",
        """
        `.bed`, `.bim` and `.fam` belong together: they have the same name, and `.bed` has one variant per line of
        `.bim` and one sample per line of `.fam`. Phenotypes and covariates are matched by FID and IID, in any
        order. VCF Zarr is the format of bio2zarr, with `call_genotype` or dosages. `missing:` sets how missing
        calls are treated.
        """,
    ),
    "cells": Topic(
        "AnnData files",
        """
        The matrix is X or a layer, the target and labels are columns of `obs`, and the names come from `var`.
        `.h5ad` needs `pip install "daskfs[cells]"`.
        """,
    ),
    "sparse-rows": Topic(
        "Sparse rows",
        """
        LIBSVM and Vowpal Wabbit files, clicks, sparse matrices, bags of lines. The message names the line and what
        does not follow the format. Features are 64-bit ids, so the rows cannot be made dense; use methods that
        support sparse rows (`mission`, `fgm`, `message`).
        """,
    ),
    "texts": Topic(
        "Texts",
        """
        JSON lines, CSV or a folder of files, with one document per line, row or file; `text:` and `target:` name
        the fields. The n-gram options are those of scikit-learn's vectorizers.
        """,
    ),
    "sequences": Topic(
        "Sequences",
        """
        FASTA or FASTQ with a label for each sequence: one per file, from the header by a regular expression, or
        from a table. `k` is a length or a gapped pattern.
        """,
    ),
    "pairs-of-features": Topic(
        "Pairs of sparse features",
        """
        `interactions:` is `all`, or pairs of namespaces such as `[[user, ad]]` if the source has namespaces. Rows
        with many entries have very many pairs, so their number is limited.
        """,
    ),
    "streams": Topic(
        "Streams and runs without a store",
        """
        `mission` and the baselines that support streams learn from data that are read once (`store: none`). The
        data cannot be read again, so there is no refit, no second selection and no random split. Every k-th row
        is a test row.
        """,
    ),
    "sketches": Topic(
        "Sketches and saved models",
        """
        The file is not a model of daskfs, is damaged, or was made by a newer version or with another hash.
        Sketches can be added only if hashes, buckets and seed are equal.
        """,
    ),
    "store-exists": Topic(
        "The path of a new store already exists",
        """
        A store is never overwritten. Remove it, or choose another path. If another process is writing the store,
        the message names the process. An ingest that was interrupted, or that lost its cluster, leaves its finished
        parts in `NAME.unfinished` and continues from them when you start the same ingest again. Remove the folder
        if you do not want to.
        """,
    ),
    "store-format": Topic(
        "Not a feature store",
        """
        The path does not exist, is another kind of folder, or is a store that is unfinished or of a newer version.
        `daskfs info STORE` describes a store; `daskfs ingest SOURCE STORE` makes one.
        """,
    ),
    "damaged-stores": Topic(
        "Damaged stores",
        """
        Every read is compared with checksums. A chunk is missing, truncated, changed or in the wrong place; its
        data were not used. `daskfs verify STORE` lists all damaged parts. Copy the store again, or ingest its
        source again: the same source gives the same bytes.
        """,
    ),
    "stores": Topic(
        "Stores that cannot be read or written",
        """
        The disk is full, permissions are missing, the store changed while it was open, or other users may write
        to the folder.
        """,
    ),
    "object-stores": Topic(
        "Object stores and HTTP",
        """
        `s3://`, `gs://`, `az://` and `https://` need `pip install "daskfs[cloud]"`. Temporary failures are retried
        for a while. "refused" means missing or wrong credentials, which each process takes from its own
        environment; `storage:` in a pipeline sets region and endpoint. HTTP is read-only.
        """,
    ),
    "clusters": Topic(
        "Clusters",
        """
        The scheduler does not answer, jobs die, workers are lost repeatedly, or certificates are missing. The
        message contains the last lines of a job's log. Workers that die on the same task usually lack memory:
        see the plan, and set `memory_limit` to the memory that jobs really have. Scripts that start processes
        need `if __name__ == "__main__":`. `connect_timeout_s` and `wait_timeout_s` set the waiting times.
        """,
    ),
    "lost-nodes": Topic(
        "Loss of the central node",
        """
        The process that holds the common state of asynchronous online substitution was lost several times. Each
        time the work continued from the state of the workers. Repeated losses suggest a lack of memory or a
        machine that is being preempted.
        """,
    ),
}
