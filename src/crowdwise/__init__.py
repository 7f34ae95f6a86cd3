"""crowdwise: labels you can trust from the noisy votes of many annotators.

>>> import crowdwise
>>> votes = crowdwise.Annotations.from_arrays(
...     item=[1, 1, 1, 2, 2, 2], annotator=["x", "y", "z"] * 2, label=["cat", "cat", "dog", "dog", "dog", "dog"])
>>> crowdwise.make("dawid-skene").fit(votes).labels_.tolist()
['cat', 'dog']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that `import crowdwise` and the CLI's --help stay fast.
_LAZY = {
    "Annotations": "crowdwise.annotations",
    "Auto": "crowdwise.choice.auto",
    "AutoClassifier": "crowdwise.choice.auto_classifier",
    "BayesGC": "crowdwise.aggregate.bayes_gc",
    "BeliefPropagation": "crowdwise.aggregate.belief_propagation",
    "CommunityBCC": "crowdwise.aggregate.community_bcc",
    "ConfusionVector": "crowdwise.aggregate.confusion_vector",
    "DawidSkene": "crowdwise.aggregate.dawid_skene",
    "EBCC": "crowdwise.aggregate.ebcc",
    "GLAD": "crowdwise.aggregate.glad",
    "GroupDawidSkene": "crowdwise.aggregate.group_dawid_skene",
    "GroupVote": "crowdwise.aggregate.group_vote",
    "KOS": "crowdwise.aggregate.kos",
    "MACE": "crowdwise.aggregate.mace",
    "MajorityVote": "crowdwise.aggregate.majority",
    "MeanField": "crowdwise.aggregate.mean_field",
    "MaxMarginVote": "crowdwise.aggregate.max_margin",
    "MinimaxEntropy": "crowdwise.aggregate.minimax_entropy",
    "OneCoin": "crowdwise.aggregate.one_coin",
    "OnlineEM": "crowdwise.online.online_em",
    "Result": "crowdwise.result",
    "StreamingDawidSkene": "crowdwise.online.streaming",
    "Wawa": "crowdwise.aggregate.wawa",
    "WorkerCluster": "crowdwise.aggregate.worker_cluster",
    "ZeroBasedSkill": "crowdwise.aggregate.zero_based_skill",
    "CNMF": "crowdwise.aggregate.cnmf",
    "Eigen": "crowdwise.aggregate.eigen",
    "MMSR": "crowdwise.aggregate.m_msr",
    "MultiSPA": "crowdwise.aggregate.multi_spa",
    "PGD": "crowdwise.aggregate.pgd",
    "SpectralDS": "crowdwise.aggregate.spectral_ds",
    "SymNMF": "crowdwise.aggregate.sym_nmf",
    "TensorADMM": "crowdwise.aggregate.tensor_admm",
    "AggNet": "crowdwise.learn.aggnet",
    "BayesDGC": "crowdwise.learn.bayes_dgc",
    "CCEM": "crowdwise.learn.ccem",
    "COINNet": "crowdwise.learn.coinnet",
    "CrowdLayerMW": "crowdwise.learn.crowd_layer",
    "CrowdLayerVW": "crowdwise.learn.crowd_layer",
    "CrowdLayerVWB": "crowdwise.learn.crowd_layer",
    "DeepBP": "crowdwise.learn.deep_bp",
    "DALC": "crowdwise.learn.dalc",
    "DeepMF": "crowdwise.learn.deep_mf",
    "GPNETCR": "crowdwise.learn.gpnetcr",
    "GeoCrowdNetF": "crowdwise.learn.geocrowdnet",
    "GeoCrowdNetW": "crowdwise.learn.geocrowdnet",
    "InstanceConfusion": "crowdwise.learn.instance_confusion",
    "MaxMIG": "crowdwise.learn.maxmig",
    "RFF": "crowdwise.learn.fourier_gp",
    "Raykar": "crowdwise.learn.raykar",
    "Rodr14": "crowdwise.learn.rodr14",
    "SVGP": "crowdwise.learn.svgpcr",
    "SVGPCR": "crowdwise.learn.svgpcr",
    "SVGPCRNF": "crowdwise.learn.svgpcr_nf",
    "TraceReg": "crowdwise.learn.trace_reg",
    "TwoStage": "crowdwise.learn.two_stage",
    "VFF": "crowdwise.learn.fourier_gp",
    "VGPCR": "crowdwise.learn.vgpcr",
    "Yan": "crowdwise.learn.yan",
    "load": "crowdwise.learn.loading",
    "make": "crowdwise.learn.registry",
    "read": "crowdwise.io",
}

# Modules that work as attributes without an import of their own: `crowdwise.datasets.demo()`.
_MODULES = ("active", "calibration", "compare", "datasets", "errors", "io", "metrics", "plot", "report", "robust", "simulate")

__all__ = ["__version__", *sorted(_LAZY)]

if TYPE_CHECKING:
    from crowdwise.aggregate.bayes_gc import BayesGC as BayesGC
    from crowdwise.aggregate.belief_propagation import BeliefPropagation as BeliefPropagation
    from crowdwise.aggregate.cnmf import CNMF as CNMF
    from crowdwise.aggregate.community_bcc import CommunityBCC as CommunityBCC
    from crowdwise.aggregate.confusion_vector import ConfusionVector as ConfusionVector
    from crowdwise.aggregate.dawid_skene import DawidSkene as DawidSkene
    from crowdwise.aggregate.ebcc import EBCC as EBCC
    from crowdwise.aggregate.eigen import Eigen as Eigen
    from crowdwise.aggregate.glad import GLAD as GLAD
    from crowdwise.aggregate.group_dawid_skene import GroupDawidSkene as GroupDawidSkene
    from crowdwise.aggregate.group_vote import GroupVote as GroupVote
    from crowdwise.aggregate.kos import KOS as KOS
    from crowdwise.aggregate.m_msr import MMSR as MMSR
    from crowdwise.aggregate.mace import MACE as MACE
    from crowdwise.aggregate.majority import MajorityVote as MajorityVote
    from crowdwise.aggregate.max_margin import MaxMarginVote as MaxMarginVote
    from crowdwise.aggregate.mean_field import MeanField as MeanField
    from crowdwise.aggregate.minimax_entropy import MinimaxEntropy as MinimaxEntropy
    from crowdwise.aggregate.multi_spa import MultiSPA as MultiSPA
    from crowdwise.aggregate.one_coin import OneCoin as OneCoin
    from crowdwise.aggregate.pgd import PGD as PGD
    from crowdwise.aggregate.spectral_ds import SpectralDS as SpectralDS
    from crowdwise.aggregate.sym_nmf import SymNMF as SymNMF
    from crowdwise.aggregate.tensor_admm import TensorADMM as TensorADMM
    from crowdwise.aggregate.wawa import Wawa as Wawa
    from crowdwise.aggregate.worker_cluster import WorkerCluster as WorkerCluster
    from crowdwise.aggregate.zero_based_skill import ZeroBasedSkill as ZeroBasedSkill
    from crowdwise.annotations import Annotations as Annotations
    from crowdwise.choice.auto import Auto as Auto
    from crowdwise.choice.auto_classifier import AutoClassifier as AutoClassifier
    from crowdwise.io import read as read
    from crowdwise.learn.aggnet import AggNet as AggNet
    from crowdwise.learn.bayes_dgc import BayesDGC as BayesDGC
    from crowdwise.learn.ccem import CCEM as CCEM
    from crowdwise.learn.coinnet import COINNet as COINNet
    from crowdwise.learn.crowd_layer import CrowdLayerMW as CrowdLayerMW
    from crowdwise.learn.crowd_layer import CrowdLayerVW as CrowdLayerVW
    from crowdwise.learn.crowd_layer import CrowdLayerVWB as CrowdLayerVWB
    from crowdwise.learn.dalc import DALC as DALC
    from crowdwise.learn.deep_bp import DeepBP as DeepBP
    from crowdwise.learn.deep_mf import DeepMF as DeepMF
    from crowdwise.learn.fourier_gp import RFF as RFF
    from crowdwise.learn.fourier_gp import VFF as VFF
    from crowdwise.learn.geocrowdnet import GeoCrowdNetF as GeoCrowdNetF
    from crowdwise.learn.geocrowdnet import GeoCrowdNetW as GeoCrowdNetW
    from crowdwise.learn.gpnetcr import GPNETCR as GPNETCR
    from crowdwise.learn.instance_confusion import InstanceConfusion as InstanceConfusion
    from crowdwise.learn.loading import load as load
    from crowdwise.learn.maxmig import MaxMIG as MaxMIG
    from crowdwise.learn.raykar import Raykar as Raykar
    from crowdwise.learn.registry import make as make
    from crowdwise.learn.rodr14 import Rodr14 as Rodr14
    from crowdwise.learn.svgpcr import SVGP as SVGP
    from crowdwise.learn.svgpcr import SVGPCR as SVGPCR
    from crowdwise.learn.svgpcr_nf import SVGPCRNF as SVGPCRNF
    from crowdwise.learn.trace_reg import TraceReg as TraceReg
    from crowdwise.learn.two_stage import TwoStage as TwoStage
    from crowdwise.learn.vgpcr import VGPCR as VGPCR
    from crowdwise.learn.yan import Yan as Yan
    from crowdwise.online.online_em import OnlineEM as OnlineEM
    from crowdwise.online.streaming import StreamingDawidSkene as StreamingDawidSkene
    from crowdwise.result import Result as Result


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"crowdwise.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
