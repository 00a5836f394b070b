"""daskfs: select the few features that matter from data too large for memory.

Public names are imported on first use, so that ``import daskfs`` loads neither Dask nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from daskfs.methods import CHOOSERS, MODEL_SELECTION, SELECTORS, by_class
from daskfs.methods import load as loaded
from daskfs.version import __version__

_PLACE_OF = {
    **by_class(SELECTORS),
    **by_class(CHOOSERS),
    **by_class(MODEL_SELECTION),
    "FeatureStore": "daskfs.store.feature_store:FeatureStore",
    "open_store": "daskfs.store.feature_store:open_store",
    "ingest": "daskfs.sources.ingest:ingest",
    "open_cluster": "daskfs.cluster.open:open_cluster",
    "load": "daskfs.applied.model:load",
    "examine": "daskfs.pipeline.examining:examine",
    "examine_variants": "daskfs.pipeline.variants:examine_variants",
    "SelectionResult": "daskfs.result:SelectionResult",
    "DaskfsError": "daskfs.errors:DaskfsError",
}

__all__ = [*_PLACE_OF, "__version__", "baselines", "feature_maps"]

if TYPE_CHECKING:
    from daskfs.applied.model import load as load
    from daskfs.cluster.open import open_cluster as open_cluster
    from daskfs.errors import DaskfsError as DaskfsError
    from daskfs.model_selection.auto import Auto as Auto
    from daskfs.model_selection.knockoffs import Knockoffs as Knockoffs
    from daskfs.model_selection.selection_cv import SelectionCV as SelectionCV
    from daskfs.model_selection.split_inference import SplitInference as SplitInference
    from daskfs.model_selection.stability import StabilitySelection as StabilitySelection
    from daskfs.pipeline.examining import examine as examine
    from daskfs.pipeline.variants import examine_variants as examine_variants
    from daskfs.result import SelectionResult as SelectionResult
    from daskfs.selectors.asy_os.selector import AsyncOnlineSubstitution as AsyncOnlineSubstitution
    from daskfs.selectors.fgm.selector import FGM as FGM
    from daskfs.selectors.message.selector import Message as Message
    from daskfs.selectors.mission.selector import Mission as Mission
    from daskfs.selectors.online_substitution.selector import OnlineSubstitution as OnlineSubstitution
    from daskfs.sources.ingest import ingest as ingest
    from daskfs.store.feature_store import FeatureStore as FeatureStore
    from daskfs.store.feature_store import open_store as open_store


def __getattr__(name: str) -> Any:
    if name in ("baselines", "feature_maps"):
        return import_module(f"daskfs.{name}")
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'daskfs' has no attribute {name!r}")
    return loaded(_PLACE_OF[name])


def __dir__() -> list[str]:
    return sorted(__all__)
