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
    "Annotations": "crowdwise.data.annotations",
    "Auto": "crowdwise.trust.choice.auto",
    "AutoClassifier": "crowdwise.trust.choice.auto_classifier",
    "BayesGC": "crowdwise.methods.labels.bayes_gc",
    "BeliefPropagation": "crowdwise.methods.labels.belief_propagation",
    "CommunityBCC": "crowdwise.methods.labels.community_bcc",
    "ConfusionVector": "crowdwise.methods.labels.confusion_vector",
    "CumulativeLink": "crowdwise.methods.labels.cumulative_link",
    "OrdinalBinary": "crowdwise.methods.labels.ordinal_binary",
    "DawidSkene": "crowdwise.methods.labels.dawid_skene",
    "EBCC": "crowdwise.methods.labels.ebcc",
    "GLAD": "crowdwise.methods.labels.glad",
    "GroupDawidSkene": "crowdwise.methods.labels.group_dawid_skene",
    "GroupVote": "crowdwise.methods.labels.group_vote",
    "KOS": "crowdwise.methods.labels.kos",
    "LabelSets": "crowdwise.data.label_sets",
    "LabelWise": "crowdwise.methods.sets.label_wise",
    "PartialDawidSkene": "crowdwise.methods.sets.partial",
    "MACE": "crowdwise.methods.labels.mace",
    "MajorityVote": "crowdwise.methods.labels.majority",
    "MeanField": "crowdwise.methods.labels.mean_field",
    "MaxMarginVote": "crowdwise.methods.labels.max_margin",
    "MinimaxEntropy": "crowdwise.methods.labels.minimax_entropy",
    "OneCoin": "crowdwise.methods.labels.one_coin",
    "OnlineEM": "crowdwise.methods.online.online_em",
    "Result": "crowdwise.estimator.result",
    "StreamingDawidSkene": "crowdwise.methods.online.streaming",
    "Wawa": "crowdwise.methods.labels.wawa",
    "WorkerCluster": "crowdwise.methods.labels.worker_cluster",
    "ZeroBasedSkill": "crowdwise.methods.labels.zero_based_skill",
    "CNMF": "crowdwise.methods.labels.cnmf",
    "Eigen": "crowdwise.methods.labels.eigen",
    "MMSR": "crowdwise.methods.labels.m_msr",
    "MultiSPA": "crowdwise.methods.labels.multi_spa",
    "PGD": "crowdwise.methods.labels.pgd",
    "SpectralDS": "crowdwise.methods.labels.spectral_ds",
    "SymNMF": "crowdwise.methods.labels.sym_nmf",
    "TensorADMM": "crowdwise.methods.labels.tensor_admm",
    "AggNet": "crowdwise.methods.classify.aggnet",
    "BayesDGC": "crowdwise.methods.classify.bayes_dgc",
    "CCEM": "crowdwise.methods.classify.ccem",
    "COINNet": "crowdwise.methods.classify.coinnet",
    "CrowdLayerMW": "crowdwise.methods.classify.crowd_layer",
    "CrowdLayerVW": "crowdwise.methods.classify.crowd_layer",
    "CrowdLayerVWB": "crowdwise.methods.classify.crowd_layer",
    "DeepBP": "crowdwise.methods.classify.deep_bp",
    "DALC": "crowdwise.methods.classify.dalc",
    "DeepMF": "crowdwise.methods.classify.deep_mf",
    "GPNETCR": "crowdwise.methods.classify.gpnetcr",
    "GeoCrowdNetF": "crowdwise.methods.classify.geocrowdnet",
    "GeoCrowdNetW": "crowdwise.methods.classify.geocrowdnet",
    "InstanceConfusion": "crowdwise.methods.classify.instance_confusion",
    "MaxMIG": "crowdwise.methods.classify.maxmig",
    "RFF": "crowdwise.methods.classify.fourier_gp",
    "Raykar": "crowdwise.methods.classify.raykar",
    "Rodr14": "crowdwise.methods.classify.rodr14",
    "SVGP": "crowdwise.methods.classify.svgpcr",
    "SVGPCR": "crowdwise.methods.classify.svgpcr",
    "SVGPCRNF": "crowdwise.methods.classify.svgpcr_nf",
    "TraceReg": "crowdwise.methods.classify.trace_reg",
    "TwoStage": "crowdwise.methods.classify.two_stage",
    "VFF": "crowdwise.methods.classify.fourier_gp",
    "VGPCR": "crowdwise.methods.classify.vgpcr",
    "Yan": "crowdwise.methods.classify.yan",
    "ItemGroupDS": "crowdwise.methods.labels.item_group_ds",
    "ParityClassifier": "crowdwise.trust.fairness.parity_classifier",
    "TokenVotes": "crowdwise.data.token_votes",
    "HMMCrowd": "crowdwise.methods.tags.hmm_crowd",
    "BSC": "crowdwise.methods.tags.bsc",
    "TokenMajority": "crowdwise.methods.tags.baselines",
    "TokenDawidSkene": "crowdwise.methods.tags.baselines",
    "Values": "crowdwise.data.ratings",
    "MeanValue": "crowdwise.methods.ratings.averages",
    "MedianValue": "crowdwise.methods.ratings.averages",
    "WeightedMeanValue": "crowdwise.methods.ratings.averages",
    "GaussianCrowd": "crowdwise.methods.ratings.gaussian_crowd",
    "GaussianCrowdBayes": "crowdwise.methods.ratings.gaussian_crowd_bayes",
    "StudentCrowd": "crowdwise.methods.ratings.student_crowd",
    "CovarianceCrowd": "crowdwise.methods.ratings.covariance_crowd",
    "GPCrowdRegression": "crowdwise.methods.ratings.gp_crowd_regression",
    "CrowdLayerRegression": "crowdwise.methods.ratings.crowd_layer_regression",
    "BradleyTerry": "crowdwise.methods.rank.bradley_terry",
    "CrowdBT": "crowdwise.methods.rank.crowd_bt",
    "NoisyBT": "crowdwise.methods.rank.crowd_bt",
    "RankNetwork": "crowdwise.methods.rank.rank_network",
    "Comparisons": "crowdwise.data.pairs",
    "Similarities": "crowdwise.data.pairs",
    "CrowdClustering": "crowdwise.methods.clusters.crowd_clustering",
    "SimilarityNMF": "crowdwise.methods.clusters.similarity_nmf",
    "load": "crowdwise.methods.classify.loading",
    "make": "crowdwise.methods.classify.registry",
    "read": "crowdwise.io",
}

# Modules that work as attributes without an import of their own: `crowdwise.datasets.demo()`.
_MODULES = {
    "calibration": "trust.calibration",
    "campaign": "campaign",
    "compare": "trust.compare",
    "crowd": "trust.crowd",
    "data": "data",
    "datasets": "data.datasets",
    "engines": "engines",
    "errors": "errors",
    "estimator": "estimator",
    "fairness": "trust.fairness",
    "io": "io",
    "methods": "methods",
    "metrics": "trust.metrics",
    "parts": "parts",
    "plot": "report.plot",
    "report": "report",
    "scale": "scale",
    "simulate": "data.simulate",
    "trust": "trust",
}

__all__ = ["__version__", *sorted(_LAZY)]

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations as Annotations
    from crowdwise.data.label_sets import LabelSets as LabelSets
    from crowdwise.data.pairs import Comparisons as Comparisons
    from crowdwise.data.pairs import Similarities as Similarities
    from crowdwise.data.ratings import Values as Values
    from crowdwise.data.token_votes import TokenVotes as TokenVotes
    from crowdwise.estimator.result import Result as Result
    from crowdwise.io import read as read
    from crowdwise.methods.classify.aggnet import AggNet as AggNet
    from crowdwise.methods.classify.bayes_dgc import BayesDGC as BayesDGC
    from crowdwise.methods.classify.ccem import CCEM as CCEM
    from crowdwise.methods.classify.coinnet import COINNet as COINNet
    from crowdwise.methods.classify.crowd_layer import CrowdLayerMW as CrowdLayerMW
    from crowdwise.methods.classify.crowd_layer import CrowdLayerVW as CrowdLayerVW
    from crowdwise.methods.classify.crowd_layer import CrowdLayerVWB as CrowdLayerVWB
    from crowdwise.methods.classify.dalc import DALC as DALC
    from crowdwise.methods.classify.deep_bp import DeepBP as DeepBP
    from crowdwise.methods.classify.deep_mf import DeepMF as DeepMF
    from crowdwise.methods.classify.fourier_gp import RFF as RFF
    from crowdwise.methods.classify.fourier_gp import VFF as VFF
    from crowdwise.methods.classify.geocrowdnet import GeoCrowdNetF as GeoCrowdNetF
    from crowdwise.methods.classify.geocrowdnet import GeoCrowdNetW as GeoCrowdNetW
    from crowdwise.methods.classify.gpnetcr import GPNETCR as GPNETCR
    from crowdwise.methods.classify.instance_confusion import InstanceConfusion as InstanceConfusion
    from crowdwise.methods.classify.loading import load as load
    from crowdwise.methods.classify.maxmig import MaxMIG as MaxMIG
    from crowdwise.methods.classify.raykar import Raykar as Raykar
    from crowdwise.methods.classify.registry import make as make
    from crowdwise.methods.classify.rodr14 import Rodr14 as Rodr14
    from crowdwise.methods.classify.svgpcr import SVGP as SVGP
    from crowdwise.methods.classify.svgpcr import SVGPCR as SVGPCR
    from crowdwise.methods.classify.svgpcr_nf import SVGPCRNF as SVGPCRNF
    from crowdwise.methods.classify.trace_reg import TraceReg as TraceReg
    from crowdwise.methods.classify.two_stage import TwoStage as TwoStage
    from crowdwise.methods.classify.vgpcr import VGPCR as VGPCR
    from crowdwise.methods.classify.yan import Yan as Yan
    from crowdwise.methods.clusters.crowd_clustering import CrowdClustering as CrowdClustering
    from crowdwise.methods.clusters.similarity_nmf import SimilarityNMF as SimilarityNMF
    from crowdwise.methods.labels.bayes_gc import BayesGC as BayesGC
    from crowdwise.methods.labels.belief_propagation import BeliefPropagation as BeliefPropagation
    from crowdwise.methods.labels.cnmf import CNMF as CNMF
    from crowdwise.methods.labels.community_bcc import CommunityBCC as CommunityBCC
    from crowdwise.methods.labels.confusion_vector import ConfusionVector as ConfusionVector
    from crowdwise.methods.labels.cumulative_link import CumulativeLink as CumulativeLink
    from crowdwise.methods.labels.dawid_skene import DawidSkene as DawidSkene
    from crowdwise.methods.labels.ebcc import EBCC as EBCC
    from crowdwise.methods.labels.eigen import Eigen as Eigen
    from crowdwise.methods.labels.glad import GLAD as GLAD
    from crowdwise.methods.labels.group_dawid_skene import GroupDawidSkene as GroupDawidSkene
    from crowdwise.methods.labels.group_vote import GroupVote as GroupVote
    from crowdwise.methods.labels.item_group_ds import ItemGroupDS as ItemGroupDS
    from crowdwise.methods.labels.kos import KOS as KOS
    from crowdwise.methods.labels.m_msr import MMSR as MMSR
    from crowdwise.methods.labels.mace import MACE as MACE
    from crowdwise.methods.labels.majority import MajorityVote as MajorityVote
    from crowdwise.methods.labels.max_margin import MaxMarginVote as MaxMarginVote
    from crowdwise.methods.labels.mean_field import MeanField as MeanField
    from crowdwise.methods.labels.minimax_entropy import MinimaxEntropy as MinimaxEntropy
    from crowdwise.methods.labels.multi_spa import MultiSPA as MultiSPA
    from crowdwise.methods.labels.one_coin import OneCoin as OneCoin
    from crowdwise.methods.labels.ordinal_binary import OrdinalBinary as OrdinalBinary
    from crowdwise.methods.labels.pgd import PGD as PGD
    from crowdwise.methods.labels.spectral_ds import SpectralDS as SpectralDS
    from crowdwise.methods.labels.sym_nmf import SymNMF as SymNMF
    from crowdwise.methods.labels.tensor_admm import TensorADMM as TensorADMM
    from crowdwise.methods.labels.wawa import Wawa as Wawa
    from crowdwise.methods.labels.worker_cluster import WorkerCluster as WorkerCluster
    from crowdwise.methods.labels.zero_based_skill import ZeroBasedSkill as ZeroBasedSkill
    from crowdwise.methods.online.online_em import OnlineEM as OnlineEM
    from crowdwise.methods.online.streaming import StreamingDawidSkene as StreamingDawidSkene
    from crowdwise.methods.rank.bradley_terry import BradleyTerry as BradleyTerry
    from crowdwise.methods.rank.crowd_bt import CrowdBT as CrowdBT
    from crowdwise.methods.rank.crowd_bt import NoisyBT as NoisyBT
    from crowdwise.methods.rank.rank_network import RankNetwork as RankNetwork
    from crowdwise.methods.ratings.averages import MeanValue as MeanValue
    from crowdwise.methods.ratings.averages import MedianValue as MedianValue
    from crowdwise.methods.ratings.averages import WeightedMeanValue as WeightedMeanValue
    from crowdwise.methods.ratings.covariance_crowd import CovarianceCrowd as CovarianceCrowd
    from crowdwise.methods.ratings.crowd_layer_regression import CrowdLayerRegression as CrowdLayerRegression
    from crowdwise.methods.ratings.gaussian_crowd import GaussianCrowd as GaussianCrowd
    from crowdwise.methods.ratings.gaussian_crowd_bayes import GaussianCrowdBayes as GaussianCrowdBayes
    from crowdwise.methods.ratings.gp_crowd_regression import GPCrowdRegression as GPCrowdRegression
    from crowdwise.methods.ratings.student_crowd import StudentCrowd as StudentCrowd
    from crowdwise.methods.sets.label_wise import LabelWise as LabelWise
    from crowdwise.methods.sets.partial import PartialDawidSkene as PartialDawidSkene
    from crowdwise.methods.tags.baselines import TokenDawidSkene as TokenDawidSkene
    from crowdwise.methods.tags.baselines import TokenMajority as TokenMajority
    from crowdwise.methods.tags.bsc import BSC as BSC
    from crowdwise.methods.tags.hmm_crowd import HMMCrowd as HMMCrowd
    from crowdwise.trust.choice.auto import Auto as Auto
    from crowdwise.trust.choice.auto_classifier import AutoClassifier as AutoClassifier
    from crowdwise.trust.fairness.parity_classifier import ParityClassifier as ParityClassifier


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"crowdwise.{_MODULES[name]}")
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
