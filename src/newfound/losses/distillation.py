"""Distillation: what a network of the known classes says of novel images is not to be forgotten."""

from torch import Tensor


def relation_distillation(student: Tensor, teacher: Tensor, tau: float, temperature: float) -> Tensor:
    """Joint logits (V, K, M, C) and a teacher's known ones (V, M, C_l) → cross-entropy, mean over V, K and M.

        T² w_i / mean w  < - p_teacher,i , log p_student,i >

    p are over the known classes, of logits / (tau T), and w is the student's probability of all of them
    together: the more a novel image looks like known ones, the more it is held to the teacher. The mean of w
    is over V, K and M; gradients flow through w.
    """
    num_known, scale = teacher.shape[-1], tau * temperature
    log_p = (student.float() / scale).log_softmax(-1)[..., :num_known]
    log_w = log_p.logsumexp(-1, keepdim=True)
    p_teacher = (teacher.float() / scale).softmax(-1).unsqueeze(1)
    entropies = -(p_teacher * (log_p - log_w)).sum(-1)
    w = log_w.squeeze(-1).exp()
    return temperature**2 * (w / w.mean() * entropies).mean()
