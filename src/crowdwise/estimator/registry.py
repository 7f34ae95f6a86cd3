"""Every method by name: the registry alone drives the CLI, the contract tests and the docs' table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdwise.errors import MissingExtraError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.estimator.base import Aggregator

__all__ = ["METHODS", "ORDERED", "Method", "make"]

#: What ordinal methods need: the order of the classes is no chance of the alphabet.
ORDERED = "votes of ordered classes"


@dataclass(frozen=True)
class Method:
    """One line of the registry; the class is imported when it is asked for."""

    name: str
    path: str
    summary: str
    family: str
    needs: str
    reference: str
    package: str = "crowdwise.methods.labels"
    #: Needs nothing of the votes but counts that add up over items, so that it runs on shards (`crowdwise.scale`).
    additive: bool = False

    @property
    def cls(self) -> type[Any]:
        """The estimator class."""
        module, _, name = self.path.partition(":")
        try:
            found: type[Any] = getattr(import_module(f"{self.package}.{module}"), name)
        except ModuleNotFoundError as problem:
            if problem.name is None or problem.name.startswith("crowdwise"):
                raise
            raise MissingExtraError(f"{self.name} needs {problem.name}: pip install 'crowdwise[torch]'") from problem
        return found

    def suits(self, n_classes: int) -> bool:
        """Whether the method is made for votes of this many classes."""
        return n_classes <= 2 or self.needs != "votes of two classes"


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "majority", "majority:MajorityVote", "share of votes for each class", "vote", "votes", "folklore", additive=True
        ),
        Method(
            "wawa",
            "wawa:Wawa",
            "vote weighted by agreement with the majority",
            "vote",
            "votes",
            "Appen; crowd-kit",
            additive=True,
        ),
        Method(
            "zbs",
            "zero_based_skill:ZeroBasedSkill",
            "vote weighted by skill, adjusted step by step",
            "vote",
            "votes",
            "crowd-kit",
        ),
        Method(
            "dawid-skene",
            "dawid_skene:DawidSkene",
            "confusion matrix per annotator, EM",
            "EM",
            "votes",
            "Dawid and Skene (1979)",
            additive=True,
        ),
        Method(
            "one-coin",
            "one_coin:OneCoin",
            "one accuracy per annotator, EM",
            "EM",
            "votes",
            "after Dawid and Skene (1979)",
            additive=True,
        ),
        Method(
            "confusion-vector",
            "confusion_vector:ConfusionVector",
            "one accuracy per annotator and class, EM",
            "EM",
            "votes",
            "after Dawid and Skene (1979)",
            additive=True,
        ),
        Method("glad", "glad:GLAD", "ability of annotators, difficulty of items", "EM", "votes", "Whitehill et al. (2009)"),
        Method(
            "mace",
            "mace:MACE",
            "honest at times, spamming at others",
            "variational",
            "votes",
            "Hovy et al. (2013)",
            additive=True,
        ),
        Method(
            "bayes-gc",
            "bayes_gc:BayesGC",
            "Dawid-Skene with Dirichlet posteriors",
            "variational",
            "votes",
            "Li, Huang and Chen; Kim and Ghahramani (2012)",
            additive=True,
        ),
        Method(
            "online-em",
            "online_em:OnlineEM",
            "Dawid-Skene by online EM, a step per vote",
            "EM",
            "votes, as they come",
            "Cappe and Moulines (2009); Traganitis et al. (2020)",
            package="crowdwise.methods.online",
            additive=True,
        ),
        Method(
            "streaming-ds",
            "streaming:StreamingDawidSkene",
            "bayes-gc that folds votes in as they come",
            "variational",
            "votes, as they come",
            "Kim and Ghahramani (2012); Hughes and Sudderth (2013)",
            package="crowdwise.methods.online",
            additive=True,
        ),
        Method(
            "group-dawid-skene",
            "group_dawid_skene:GroupDawidSkene",
            "Dawid-Skene for annotators who share errors",
            "EM",
            "votes",
            "Jaffe et al. (2016); Traganitis and Giannakis (2022)",
        ),
        Method(
            "group-vote", "group_vote:GroupVote", "one voice per group of annotators", "vote", "votes", "ICASSP 2025 tutorial"
        ),
        Method(
            "belief-propagation",
            "belief_propagation:BeliefPropagation",
            "messages between items and annotators, any annotator prior",
            "messages",
            "votes",
            "Liu, Peng and Ihler (2012)",
        ),
        Method(
            "mean-field",
            "mean_field:MeanField",
            "variational, any annotator prior, fixed class prior",
            "variational",
            "votes",
            "Liu, Peng and Ihler (2012)",
        ),
        Method("kos", "kos:KOS", "messages of signed votes", "messages", "votes", "Karger, Oh and Shah (2011)"),
        Method(
            "ebcc",
            "ebcc:EBCC",
            "subtypes of classes, on which annotators err together",
            "variational",
            "votes",
            "Li, Rubinstein and Cohn (2019)",
        ),
        Method(
            "spectral-ds",
            "spectral_ds:SpectralDS",
            "confusion matrices by third moments of three groups, then EM",
            "moments",
            "votes",
            "Zhang, Chen, Zhou and Jordan (2014)",
        ),
        Method(
            "tensor-admm",
            "tensor_admm:TensorADMM",
            "confusion matrices by coupled tensors of pairs and triples",
            "moments",
            "votes",
            "Traganitis, Pages-Zamora and Giannakis (2018)",
        ),
        Method(
            "multi-spa",
            "multi_spa:MultiSPA",
            "confusion rows as corners of pairwise co-occurrences",
            "moments",
            "votes",
            "Ibrahim, Fu, Kargas and Huang (2019)",
        ),
        Method(
            "cnmf",
            "cnmf:CNMF",
            "coupled factorisation of pairwise co-occurrences",
            "moments",
            "votes",
            "Ibrahim, Fu, Kargas and Huang (2019)",
        ),
        Method(
            "sym-nmf",
            "sym_nmf:SymNMF",
            "symmetric factorisation of completed co-occurrences",
            "moments",
            "votes",
            "Ibrahim and Fu (2021)",
        ),
        Method(
            "eigen",
            "eigen:Eigen",
            "spectral meta-learner: covariances of votes, two classes",
            "moments",
            "votes of two classes",
            "Parisi et al. (2014); Jaffe et al. (2015)",
        ),
        Method("pgd", "pgd:PGD", "one accuracy per annotator from agreement of pairs", "moments", "votes", "Ma et al. (2018)"),
        Method(
            "m-msr",
            "m_msr:MMSR",
            "the same, robust to a colluding minority",
            "moments",
            "votes",
            "Ma and Olshevsky (2020)",
        ),
        Method(
            "minimax-entropy",
            "minimax_entropy:MinimaxEntropy",
            "confusions of annotators and of items, maximum entropy",
            "EM",
            "votes",
            "Zhou et al. (2012, 2014)",
        ),
        Method("m3v", "max_margin:MaxMarginVote", "weights that separate the classes", "vote", "votes", "Tian and Zhu (2015)"),
        Method(
            "cbcc",
            "community_bcc:CommunityBCC",
            "communities of annotators with similar confusion",
            "variational",
            "votes",
            "Venanzi et al. (2014)",
        ),
        Method(
            "worker-cluster",
            "worker_cluster:WorkerCluster",
            "clusters of annotators with one confusion matrix",
            "variational",
            "votes",
            "Imamura, Sato and Sugiyama (2018)",
        ),
        Method(
            "ordinal-binary",
            "ordinal_binary:OrdinalBinary",
            "ordered classes: a two-class Dawid-Skene for each border",
            "ordinal",
            ORDERED,
            "Frank and Hall (2001); Raykar et al. (2010)",
        ),
        Method(
            "cumulative-link",
            "cumulative_link:CumulativeLink",
            "ordered classes: a scale, thresholds and noise per annotator, EM",
            "ordinal",
            ORDERED,
            "McCullagh (1980); Uebersax and Grove (1993)",
        ),
        Method(
            "auto",
            "auto:Auto",
            "the method that foretells held-out votes best",
            "choice",
            "votes",
            "cross-validation, rule of one standard error",
            package="crowdwise.trust.choice",
        ),
    )
}


def make(name: str, **settings: Any) -> Aggregator:
    """Build a registered method by name with these settings.

    Examples
    --------
    >>> make("dawid-skene", tol=1e-8)
    DawidSkene(tol=1e-08)
    """
    if name not in METHODS:
        raise SettingError(f"no method {name!r}{did_you_mean(name, list(METHODS))} (there are {', '.join(METHODS)})")
    made: Aggregator = METHODS[name].cls().set_params(**settings)
    return made
