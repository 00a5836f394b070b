"""The loss of a fit: the one that is named, or the one that the target calls for."""

from __future__ import annotations

from daskfs.errors import SelectionWarning, warn
from daskfs.losses import AUTO, LOSSES, Loss, TargetKind
from daskfs.matrix.target import doubt
from daskfs.parameters import LossOf, Parameters, parameters_of
from daskfs.selectors.fitted import Fitted


class SettlesLoss(Fitted, Parameters):
    """Has a loss, by name or by its target."""

    _loss_note = ""  # what is to be said of the choice of the loss

    @property
    def loss_choice(self) -> LossOf | None:
        """The losses that can be asked for; None where the method has one."""
        parameter = parameters_of(type(self)).get("loss")
        if parameter is None:
            return None
        return parameter.kinds[0] if isinstance(parameter.kinds[0], LossOf) else LossOf()

    @property
    def possible_losses(self) -> list[Loss]:
        """The loss; before a fit with "auto" those that it may become."""
        name = self.loss if self.loss != AUTO else getattr(self, "loss_", AUTO)
        choice = self.loss_choice
        names = choice.by_default if name == AUTO and choice is not None else (name,)
        return [LOSSES[one] for one in names if one in LOSSES]

    @property
    def _loss(self) -> Loss:
        """The loss that is fitted, once it is settled."""
        return LOSSES[self.loss_]

    def _check_loss(self, loss: Loss) -> None:
        """Refuse other parameters with this loss; of ``loss="auto"`` asked once the target is known."""

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        """Set ``loss_``: the loss that is named, or the one that the target calls for, with a word where it may err."""
        self._loss_note, self.loss_, parameter = "", self.loss, self.loss_choice
        if parameter is None:
            return
        self.loss_ = parameter.of(type(self).__name__, self.loss, kind)
        if self.loss != AUTO:
            return
        self._check_loss(self._loss)
        is_classifier = self._loss.is_classifier
        others = [name for name in parameter.names if LOSSES[name].is_classifier != is_classifier]
        if kind.n_whole and others and is_classifier == (kind.n_classes > 0):
            self._loss_note = doubt(kind, self.loss_, others)
            if not is_plan:
                warn(f"{type(self).__name__}: {self._loss_note}", SelectionWarning)  # before the work, not after it
        elif is_classifier:
            self._loss_note = f"the target has {kind.n_classes} classes: the loss is {self.loss_}"
