"""Every method by name: the label-only ones of `aggregate` and the classifiers of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.errors import SettingError, did_you_mean
from crowdwise.estimator.registry import METHODS, Method
from crowdwise.estimator.registry import make as make_aggregator
from crowdwise.methods.classify.tasks import TASKS

if TYPE_CHECKING:
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["ALL_METHODS", "CLASSIFIERS", "EVERY_METHOD", "make", "make_classifier"]

_TABLE, _NETWORK = "votes and a table of features", "votes and features or images (extra: torch)"
_PROCESS = f"{_TABLE} (extra: torch)"


def _line(name: str, path: str, summary: str, family: str, needs: str, reference: str) -> Method:
    return Method(name, path, summary, family, needs, reference, "crowdwise.methods.classify")


CLASSIFIERS: dict[str, Method] = {
    method.name: method
    for method in (
        _line(
            "two-stage",
            "two_stage:TwoStage",
            "aggregate the votes, then train any classifier on soft labels",
            "two stages",
            _TABLE,
            "folklore",
        ),
        _line(
            "raykar",
            "raykar:Raykar",
            "logistic regression and a confusion matrix per annotator, EM",
            "EM with features",
            _TABLE,
            "Raykar et al. (2010)",
        ),
        _line(
            "yan",
            "yan:Yan",
            "logistic regression; reliability that depends on the item, EM",
            "EM with features",
            _TABLE,
            "Yan et al. (2010)",
        ),
        _line(
            "aggnet",
            "aggnet:AggNet",
            "network and confusion matrices, EM",
            "EM with features",
            _NETWORK,
            "Albarqouni et al. (2016)",
        ),
        _line(
            "dalc",
            "dalc:DALC",
            "network with dropout; reliability by a few traits of items and annotators, EM",
            "EM with features",
            _NETWORK,
            "Yang et al. (2018)",
        ),
        _line(
            "crowd-layer-mw",
            "crowd_layer:CrowdLayerMW",
            "network and a matrix per annotator on its output",
            "end to end",
            _NETWORK,
            "Rodrigues and Pereira (2018)",
        ),
        _line(
            "crowd-layer-vw",
            "crowd_layer:CrowdLayerVW",
            "the same with a weight per class",
            "end to end",
            _NETWORK,
            "Rodrigues and Pereira (2018)",
        ),
        _line(
            "crowd-layer-vwb",
            "crowd_layer:CrowdLayerVWB",
            "the same with a weight and a bias per class",
            "end to end",
            _NETWORK,
            "Rodrigues and Pereira (2018)",
        ),
        _line(
            "ccem",
            "ccem:CCEM",
            "network and confusion matrices, coupled cross-entropy",
            "end to end",
            _NETWORK,
            "Ibrahim, Nguyen and Fu (2023)",
        ),
        _line(
            "trace-reg",
            "trace_reg:TraceReg",
            "ccem with the smallest trace",
            "end to end",
            _NETWORK,
            "Tanno et al. (2019)",
        ),
        _line(
            "geocrowdnet-f",
            "geocrowdnet:GeoCrowdNetF",
            "ccem with the largest volume of predictions",
            "end to end",
            _NETWORK,
            "Ibrahim, Nguyen and Fu (2023)",
        ),
        _line(
            "geocrowdnet-w",
            "geocrowdnet:GeoCrowdNetW",
            "ccem with the largest volume of confusion matrices",
            "end to end",
            _NETWORK,
            "Ibrahim, Nguyen and Fu (2023)",
        ),
        _line(
            "maxmig",
            "maxmig:MaxMIG",
            "network and crowd that tell most about each other",
            "end to end",
            _NETWORK,
            "Cao et al. (2019)",
        ),
        _line(
            "coinnet",
            "coinnet:COINNet",
            "confusion matrices plus sparse outlier items",
            "end to end",
            _NETWORK,
            "Nguyen, Ibrahim and Fu (2024)",
        ),
        _line(
            "instance-confusion",
            "instance_confusion:InstanceConfusion",
            "confusion matrices that depend on the item, small trace",
            "end to end",
            _NETWORK,
            "Zhang et al. (2020)",
        ),
        _line(
            "bayes-dgc",
            "bayes_dgc:BayesDGC",
            "network, Dirichlet class shares and confusion rows, by natural gradients",
            "Bayesian with a network",
            _NETWORK,
            "Li, Huang and Chen (2021)",
        ),
        _line(
            "deep-mf",
            "deep_mf:DeepMF",
            "network as prior, annotators by mean field",
            "Bayesian with a network",
            _NETWORK,
            "Kim et al. (2022)",
        ),
        _line(
            "deep-bp",
            "deep_bp:DeepBP",
            "network as prior, annotators summed out by messages",
            "Bayesian with a network",
            _NETWORK,
            "Kim et al. (2022)",
        ),
        _line(
            "svgpcr",
            "svgpcr:SVGPCR",
            "sparse Gaussian process and Dirichlet confusion matrices",
            "Gaussian processes",
            _PROCESS,
            "Morales-Alvarez et al. (2020)",
        ),
        _line(
            "svgp",
            "svgpcr:SVGP",
            "sparse Gaussian process on labels taken as they are",
            "Gaussian processes",
            _PROCESS,
            "Hensman, Matthews and Ghahramani (2015)",
        ),
        _line(
            "svgpcr-nf",
            "svgpcr_nf:SVGPCRNF",
            "svgpcr with planar flows on the inducing values",
            "Gaussian processes",
            _PROCESS,
            "Morales-Alvarez et al. (2020)",
        ),
        _line(
            "gpnetcr",
            "gpnetcr:GPNETCR",
            "Gaussian processes by inference networks, and Dirichlet confusion matrices",
            "Gaussian processes",
            _PROCESS,
            "Morales-Alvarez et al. (2020)",
        ),
        _line(
            "vgpcr",
            "vgpcr:VGPCR",
            "two classes: Gaussian process on all items, variational",
            "Gaussian processes",
            _TABLE,
            "Ruiz et al. (2019)",
        ),
        _line(
            "rff",
            "fourier_gp:RFF",
            "two classes: Gaussian process by random Fourier features",
            "Gaussian processes",
            _TABLE,
            "Morales-Alvarez et al. (2019)",
        ),
        _line(
            "vff",
            "fourier_gp:VFF",
            "the same with learned frequencies",
            "Gaussian processes",
            _TABLE,
            "Morales-Alvarez et al. (2019)",
        ),
        _line(
            "rodr14",
            "rodr14:Rodr14",
            "two classes: Gaussian process, expectation propagation",
            "Gaussian processes",
            _TABLE,
            "Rodrigues, Pereira and Ribeiro (2014)",
        ),
        Method(
            "auto-classifier",
            "auto_classifier:AutoClassifier",
            "the classifier that foretells held-out votes best",
            "choice",
            "votes and features or images",
            "cross-validation, rule of one standard error",
            package="crowdwise.trust.choice",
        ),
    )
}

#: Methods that infer one class per item.
ALL_METHODS: dict[str, Method] = METHODS | CLASSIFIERS
#: And those for comparisons, numbers, sequences and the like.
EVERY_METHOD: dict[str, Method] = ALL_METHODS | TASKS


def make(name: str, **settings: Any) -> Any:
    """Build any registered method by name with these settings.

    Examples
    --------
    >>> make("dawid-skene", tol=1e-8)
    DawidSkene(tol=1e-08)
    """
    if name not in EVERY_METHOD:
        raise SettingError(f"no method {name!r}{did_you_mean(name, list(EVERY_METHOD))} (there are {', '.join(EVERY_METHOD)})")
    if name in TASKS:
        return TASKS[name].cls().set_params(**settings)
    return make_aggregator(name, **settings) if name in METHODS else make_classifier(name, **settings)


def make_classifier(name: str, **settings: Any) -> CrowdClassifier:
    """Build a classifier by name with these settings; a label-only method is refused with the verb that takes it."""
    # One word on the command line: `train --method auto` chooses among classifiers.
    name = "auto-classifier" if name == "auto" else name
    if name in METHODS:
        raise SettingError(f"{name} takes votes alone: use it with `aggregate`, or as aggregator=... of two-stage")
    if name not in CLASSIFIERS:
        raise SettingError(
            f"no classifier {name!r}{did_you_mean(name, list(CLASSIFIERS))} (there are {', '.join(CLASSIFIERS)})"
        )
    cls: Any = CLASSIFIERS[name].cls
    made: CrowdClassifier = cls().set_params(**settings)
    return made
