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
    "Auto": "crowdwise.choice.auto",
    "AutoClassifier": "crowdwise.choice.auto_classifier",
    "BayesGC": "crowdwise.aggregate.bayes_gc",
    "BeliefPropagation": "crowdwise.aggregate.belief_propagation",
    "CommunityBCC": "crowdwise.aggregate.community_bcc",
    "ConfusionVector": "crowdwise.aggregate.confusion_vector",
    "CumulativeLink": "crowdwise.aggregate.cumulative_link",
    "OrdinalBinary": "crowdwise.aggregate.ordinal_binary",
    "DawidSkene": "crowdwise.aggregate.dawid_skene",
    "EBCC": "crowdwise.aggregate.ebcc",
    "GLAD": "crowdwise.aggregate.glad",
    "GroupDawidSkene": "crowdwise.aggregate.group_dawid_skene",
    "GroupVote": "crowdwise.aggregate.group_vote",
    "KOS": "crowdwise.aggregate.kos",
    "LabelSets": "crowdwise.data.label_sets",
    "LabelWise": "crowdwise.multilabel.label_wise",
    "PartialDawidSkene": "crowdwise.multilabel.partial",
    "MACE": "crowdwise.aggregate.mace",
    "MajorityVote": "crowdwise.aggregate.majority",
    "MeanField": "crowdwise.aggregate.mean_field",
    "MaxMarginVote": "crowdwise.aggregate.max_margin",
    "MinimaxEntropy": "crowdwise.aggregate.minimax_entropy",
    "OneCoin": "crowdwise.aggregate.one_coin",
    "OnlineEM": "crowdwise.online.online_em",
    "Result": "crowdwise.estimator.result",
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
    "ItemGroupDS": "crowdwise.fairness.item_group_ds",
    "ParityClassifier": "crowdwise.fairness.parity_classifier",
    "TokenVotes": "crowdwise.data.token_votes",
    "HMMCrowd": "crowdwise.sequences.hmm_crowd",
    "BSC": "crowdwise.sequences.bsc",
    "TokenMajority": "crowdwise.sequences.baselines",
    "TokenDawidSkene": "crowdwise.sequences.baselines",
    "Values": "crowdwise.data.ratings",
    "MeanValue": "crowdwise.regression.averages",
    "MedianValue": "crowdwise.regression.averages",
    "WeightedMeanValue": "crowdwise.regression.averages",
    "GaussianCrowd": "crowdwise.regression.gaussian_crowd",
    "GaussianCrowdBayes": "crowdwise.regression.gaussian_crowd_bayes",
    "StudentCrowd": "crowdwise.regression.student_crowd",
    "CovarianceCrowd": "crowdwise.regression.covariance_crowd",
    "GPCrowdRegression": "crowdwise.regression.gp_crowd_regression",
    "CrowdLayerRegression": "crowdwise.regression.crowd_layer_regression",
    "BradleyTerry": "crowdwise.ranking.bradley_terry",
    "CrowdBT": "crowdwise.ranking.crowd_bt",
    "NoisyBT": "crowdwise.ranking.crowd_bt",
    "RankNetwork": "crowdwise.ranking.rank_network",
    "Comparisons": "crowdwise.data.pairs",
    "Similarities": "crowdwise.data.pairs",
    "CrowdClustering": "crowdwise.similarity.crowd_clustering",
    "SimilarityNMF": "crowdwise.similarity.similarity_nmf",
    "load": "crowdwise.learn.loading",
    "make": "crowdwise.learn.registry",
    "read": "crowdwise.io",
}

# Modules that work as attributes without an import of their own: `crowdwise.datasets.demo()`.
_MODULES = {
    "active": "active",
    "calibration": "calibration",
    "compare": "compare",
    "data": "data",
    "datasets": "data.datasets",
    "errors": "errors",
    "fairness": "fairness",
    "io": "io",
    "metrics": "metrics",
    "multilabel": "multilabel",
    "plot": "plot",
    "ranking": "ranking",
    "regression": "regression",
    "report": "report",
    "robust": "robust",
    "scale": "scale",
    "sequences": "sequences",
    "similarity": "similarity",
    "simulate": "data.simulate",
}

__all__ = ["__version__", *sorted(_LAZY)]

if TYPE_CHECKING:
    from crowdwise.aggregate.bayes_gc import BayesGC as BayesGC
    from crowdwise.aggregate.belief_propagation import BeliefPropagation as BeliefPropagation
    from crowdwise.aggregate.cnmf import CNMF as CNMF
    from crowdwise.aggregate.community_bcc import CommunityBCC as CommunityBCC
    from crowdwise.aggregate.confusion_vector import ConfusionVector as ConfusionVector
    from crowdwise.aggregate.cumulative_link import CumulativeLink as CumulativeLink
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
    from crowdwise.aggregate.ordinal_binary import OrdinalBinary as OrdinalBinary
    from crowdwise.aggregate.pgd import PGD as PGD
    from crowdwise.aggregate.spectral_ds import SpectralDS as SpectralDS
    from crowdwise.aggregate.sym_nmf import SymNMF as SymNMF
    from crowdwise.aggregate.tensor_admm import TensorADMM as TensorADMM
    from crowdwise.aggregate.wawa import Wawa as Wawa
    from crowdwise.aggregate.worker_cluster import WorkerCluster as WorkerCluster
    from crowdwise.aggregate.zero_based_skill import ZeroBasedSkill as ZeroBasedSkill
    from crowdwise.choice.auto import Auto as Auto
    from crowdwise.choice.auto_classifier import AutoClassifier as AutoClassifier
    from crowdwise.data.annotations import Annotations as Annotations
    from crowdwise.data.label_sets import LabelSets as LabelSets
    from crowdwise.data.pairs import Comparisons as Comparisons
    from crowdwise.data.pairs import Similarities as Similarities
    from crowdwise.data.ratings import Values as Values
    from crowdwise.data.token_votes import TokenVotes as TokenVotes
    from crowdwise.estimator.result import Result as Result
    from crowdwise.fairness.item_group_ds import ItemGroupDS as ItemGroupDS
    from crowdwise.fairness.parity_classifier import ParityClassifier as ParityClassifier
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
    from crowdwise.multilabel.label_wise import LabelWise as LabelWise
    from crowdwise.multilabel.partial import PartialDawidSkene as PartialDawidSkene
    from crowdwise.online.online_em import OnlineEM as OnlineEM
    from crowdwise.online.streaming import StreamingDawidSkene as StreamingDawidSkene
    from crowdwise.ranking.bradley_terry import BradleyTerry as BradleyTerry
    from crowdwise.ranking.crowd_bt import CrowdBT as CrowdBT
    from crowdwise.ranking.crowd_bt import NoisyBT as NoisyBT
    from crowdwise.ranking.rank_network import RankNetwork as RankNetwork
    from crowdwise.regression.averages import MeanValue as MeanValue
    from crowdwise.regression.averages import MedianValue as MedianValue
    from crowdwise.regression.averages import WeightedMeanValue as WeightedMeanValue
    from crowdwise.regression.covariance_crowd import CovarianceCrowd as CovarianceCrowd
    from crowdwise.regression.crowd_layer_regression import CrowdLayerRegression as CrowdLayerRegression
    from crowdwise.regression.gaussian_crowd import GaussianCrowd as GaussianCrowd
    from crowdwise.regression.gaussian_crowd_bayes import GaussianCrowdBayes as GaussianCrowdBayes
    from crowdwise.regression.gp_crowd_regression import GPCrowdRegression as GPCrowdRegression
    from crowdwise.regression.student_crowd import StudentCrowd as StudentCrowd
    from crowdwise.sequences.baselines import TokenDawidSkene as TokenDawidSkene
    from crowdwise.sequences.baselines import TokenMajority as TokenMajority
    from crowdwise.sequences.bsc import BSC as BSC
    from crowdwise.sequences.hmm_crowd import HMMCrowd as HMMCrowd
    from crowdwise.similarity.crowd_clustering import CrowdClustering as CrowdClustering
    from crowdwise.similarity.similarity_nmf import SimilarityNMF as SimilarityNMF


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"crowdwise.{_MODULES[name]}")
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
