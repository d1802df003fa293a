# The encoder of comera for Hugging Face's transformers (trust_remote_code): tensor-train or dense layers,
# learned, rotary or relative positions, post- or pre-norm. Written by `comera export` beside the weights that
# it runs; it needs torch and transformers only.
import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import (BaseModelOutput, MaskedLMOutput, QuestionAnsweringModelOutput,
                                           SequenceClassifierOutput, TokenClassifierOutput)


class ComeraConfig(PretrainedConfig):
    model_type = "comera"

    def __init__(self, vocab_size=320, hidden_size=64, num_hidden_layers=1, num_attention_heads=1,
                 intermediate_size=256, embedding_size=None, hidden_act="gelu", max_position_embeddings=128, type_vocab_size=2,
                 layer_norm_eps=1e-12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.02,
                 positions="learned", rotary_theta=10000.0, slopes=None, relative_buckets=0, norm="post", pooling="first",
                 pairs="joint", tensor_trains=None, matrices="outputs_inputs", pad_token_id=0, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.embedding_size = embedding_size or hidden_size  # of the tables, and of what the head decodes
        self.hidden_act = hidden_act
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.layer_norm_eps = layer_norm_eps
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.initializer_range = initializer_range
        self.positions = positions  # "learned", "rotary" or "relative"
        self.rotary_theta = rotary_theta
        self.slopes = slopes  # of relative positions: for each head those before and behind a query
        self.relative_buckets = relative_buckets  # of distances, with biases of scores; 0: there are none
        self.norm = norm  # "post" or "pre"
        self.pooling = pooling  # of a sequence's head: "first" or "mean"
        self.pairs = pairs  # "joint", or "separate": two texts that are encoded each by itself
        # Modes and ranks of the layers that are tensor trains, by their names; ranks of 0: W is zero.
        self.tensor_trains = tensor_trains or {}
        self.matrices = matrices  # of the weights: how nn.Linear has them
        super().__init__(pad_token_id=pad_token_id, **kwargs)


class TensorTrainLinear(nn.Module):
    """y = x W + bias with W a tensor train: cores (r_before, mode, r_behind), those of the input modes first. Beside it
    there may be a diagonal, from each input to the outputs of its index modulo the smaller size."""

    def __init__(self, inputs, outputs, shape):
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.input_modes, modes = len(shape["input_modes"]), shape["input_modes"] + shape["output_modes"]
        ranks = [1] + shape["ranks"] + [1]
        self.removed = not any(shape["ranks"])
        sizes = [] if self.removed else [(ranks[k], n, ranks[k + 1]) for k, n in enumerate(modes)]
        self.core = nn.ParameterList([nn.Parameter(torch.empty(size)) for size in sizes])
        self.bias = nn.Parameter(torch.zeros(outputs))
        if shape.get("diagonal"):
            self.diagonal = nn.Parameter(torch.zeros(max(inputs, outputs)))
        else:
            self.register_parameter("diagonal", None)

    def passed_on(self, x):
        """What the diagonal adds."""
        if self.outputs >= self.inputs:
            return x.repeat(*[1] * (x.dim() - 1), self.outputs // self.inputs) * self.diagonal
        return (x * self.diagonal).unflatten(-1, (-1, self.outputs)).sum(-2)

    def factors(self):
        """A (inputs, rank) and B (rank, outputs), whose product is W."""
        a = self.core[0]
        for core in self.core[1:self.input_modes]:
            a = torch.tensordot(a, core, 1)
        b = self.core[self.input_modes]
        for core in self.core[self.input_modes + 1:]:
            b = torch.tensordot(b, core, 1)
        return a.reshape(self.inputs, -1), b.reshape(-1, self.outputs)

    def forward(self, x):
        y = self.bias.expand(*x.shape[:-1], self.outputs)
        if not self.removed:
            a, b = self.factors()
            y = (x @ a) @ b + y
        return y if self.diagonal is None else y + self.passed_on(x)


class Table(nn.Embedding):
    """A row for each token, also the decoder of a masked-language head."""

    def __init__(self, config):
        super().__init__(config.vocab_size, config.embedding_size)

    def decode(self, h):
        return h @ self.weight.T


class TensorTrainTable(nn.Module):
    """The same as a tensor-train matrix: cores (r_before, rows, columns, r_behind). It may be narrower than the table:
    then a matrix leads to the width. The first ids may have rows of their own."""

    def __init__(self, config, shape):
        super().__init__()
        self.vocabulary = config.vocab_size
        rows, columns, ranks = shape["row_modes"], shape["column_modes"], [1] + shape["ranks"] + [1]
        self.left = len(rows) - len(rows) // 2  # cores of the left factor
        self.core = nn.ParameterList([
            nn.Parameter(torch.empty(ranks[k], rows[k], columns[k], ranks[k + 1])) for k in range(len(rows))
        ])
        if shape.get("projection"):
            self.projection = nn.Parameter(torch.empty(math.prod(columns), config.embedding_size))
        else:
            self.register_parameter("projection", None)
        if shape.get("frequent_rows"):
            self.frequent = nn.Parameter(torch.empty(shape["frequent_rows"], math.prod(columns)))
        else:
            self.register_parameter("frequent", None)

    @staticmethod
    def merge(cores):
        """(r, R, C, s): the cores as one."""
        merged = cores[0]
        for core in cores[1:]:
            merged = torch.einsum("amnb,bpqc->ampnqc", merged, core)
            a, m, p, n, q, c = merged.shape
            merged = merged.reshape(a, m * p, n * q, c)
        return merged

    def factors(self):
        """left (rows, columns, rank) and right (rank, rows, columns)."""
        left = self.merge(self.core[:self.left])[0]
        if self.left == len(self.core):
            return left, left.new_ones(1, 1, 1)
        return left, self.merge(self.core[self.left:])[..., 0]

    def forward(self, ids):
        left, right = self.factors()
        rows = torch.einsum("...ak,k...b->...ab", left[ids // right.shape[1]], right[:, ids % right.shape[1]])
        rows = rows.flatten(-2)
        if self.frequent is not None:
            own = self.frequent[ids.clamp(max=len(self.frequent) - 1)]
            rows = torch.where((ids < len(self.frequent)).unsqueeze(-1), own, rows)
        return rows if self.projection is None else rows @ self.projection

    def decode(self, h):
        left, right = self.factors()
        if self.projection is not None:
            h = h @ self.projection.T
        own = None if self.frequent is None else h @ self.frequent.T
        h = h.unflatten(-1, (left.shape[1], right.shape[2]))
        inner = torch.einsum("...ab,krb->...akr", h, right)
        logits = torch.einsum("...akr,lak->...lr", inner, left).flatten(-2)[..., :self.vocabulary]
        return logits if own is None else torch.cat([own, logits[..., len(self.frequent):]], -1)


def linear(config, name, inputs, outputs):
    shape = config.tensor_trains.get(name)
    return nn.Linear(inputs, outputs) if shape is None else TensorTrainLinear(inputs, outputs, shape)


def layer_norm(config, width=None):
    return nn.LayerNorm(width or config.hidden_size, eps=config.layer_norm_eps)


class Embedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        shape, width = config.tensor_trains.get("embedding.tokens"), config.embedding_size
        self.tokens = Table(config) if shape is None else TensorTrainTable(config, shape)
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.empty(config.max_position_embeddings, width))
        if config.relative_buckets:
            self.relative_bias = nn.Parameter(torch.empty(config.relative_buckets, config.num_attention_heads))
        self.types = nn.Parameter(torch.empty(config.type_vocab_size, width))
        self.norm = layer_norm(config, width) if config.norm == "post" else nn.Identity()
        self.projection = nn.Identity() if width == config.hidden_size else nn.Linear(width, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.learned = config.positions == "learned"

    def forward(self, tokens, types, places):
        """tokens: vectors of the tokens; places: None for 0, 1, 2, …"""
        x = tokens + self.types[types]
        if self.learned:
            x = x + (self.positions[:x.shape[1]] if places is None else self.positions[places])
        return self.projection(self.dropout(self.norm(x)))


class Attention(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        width = config.hidden_size
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        for part in ("query", "key", "value", "output"):
            setattr(self, part, linear(config, f"{name}.{part}", width, width))

    def forward(self, x, scores, turns, eager):
        """Also the probabilities, if they are computed one by one (eager)."""
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        if turns is not None:
            q, k = turn(q, *turns), turn(k, *turns)
        dropout, shares = self.dropout if self.training else 0.0, None
        if eager:
            products = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            shares = (products if scores is None else products + scores).softmax(-1)
            y = F.dropout(shares, dropout) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=scores, dropout_p=dropout)
        return self.output(y.transpose(1, 2).flatten(-2)), shares


def turn(x, cos, sin):
    """Numbers i and i + size / 2 of a head are a point that is turned."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class FeedForward(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        self.up = linear(config, name + ".up", config.hidden_size, config.intermediate_size)
        self.down = linear(config, name + ".down", config.intermediate_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    def __init__(self, config, name):
        super().__init__()
        self.attention = Attention(config, name + ".attention")
        self.norm1 = layer_norm(config)
        self.ffn = FeedForward(config, name + ".ffn")
        self.norm2 = layer_norm(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.pre = config.norm == "pre"

    def forward(self, x, scores, turns, eager):
        y, shares = self.attention(self.norm1(x) if self.pre else x, scores, turns, eager)
        x = x + self.dropout(y)
        if self.pre:
            return x + self.dropout(self.ffn(self.norm2(x))), shares
        x = self.norm1(x)
        return self.norm2(x + self.dropout(self.ffn(x))), shares


def masked(scores, mask, x):
    """What is added to products of queries and keys: scores (None: nothing), and for keys that the mask hides the
    least number there is. mask: (B, keys), (B, queries, keys) or (B, heads or 1, queries, keys) of 1 and 0 or of
    truth values; with three or four axes also of numbers to be added."""
    if mask is None:
        return scores
    if mask.dim() not in (2, 3, 4):
        raise ValueError(f"an attention_mask has 2, 3 or 4 axes, not {mask.dim()}")
    added = mask.dim() > 2 and mask.is_floating_point()
    if mask.dim() < 4:
        mask = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
    if added:
        return mask.to(x) if scores is None else scores + mask.to(x)
    mask = mask.bool()
    if scores is None:
        scores = x.new_zeros(1)
    return scores.masked_fill(~mask, torch.finfo(x.dtype).min)


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        for i in range(config.num_hidden_layers):
            self.add_module(str(i), Block(config, f"encoder.{i}"))
        self.norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.config = config
        self.gradient_checkpointing = False

    def slopes(self, x, places):
        """Scores of relative positions."""
        distance = places[:, None, None, :] - places[:, None, :, None]
        before, behind = torch.tensor(self.config.slopes, device=x.device, dtype=x.dtype)[..., None, None].unbind(1)
        return -torch.where(distance < 0, before, behind) * distance.abs()

    def biases(self, x, places, table):
        """Scores by distance: half of the table's rows for each side, of these half for one distance each."""
        distance, side = places[:, None, :] - places[:, :, None], table.shape[0] // 2
        size, exact = distance.abs(), side // 2
        powers = torch.log(size.clamp(min=exact).float() / exact) / math.log(128 / exact) * (side - exact)
        rows = torch.where(size < exact, size, (exact + powers.long()).clamp(max=side - 1)) + side * (distance > 0)
        return table[rows].permute(0, 3, 1, 2).to(x)

    def turns(self, x, places):
        """Cosines and sines of rotary positions."""
        half = self.config.hidden_size // self.config.num_attention_heads // 2
        speeds = self.config.rotary_theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = places.to("cpu", torch.float64)[:, None, :, None] * speeds
        return angles.cos().to(x), angles.sin().to(x)

    def forward(self, x, mask, places, output_hidden_states=False, output_attentions=False, table=None):
        config = self.config
        scores = turns = None
        here = torch.arange(x.shape[1], device=x.device)[None] if places is None else places
        if config.positions == "relative":
            scores = self.slopes(x, here)
        elif table is not None:
            scores = self.biases(x, here, table)
        elif config.positions == "rotary":
            turns = self.turns(x, torch.arange(x.shape[1])[None] if places is None else places)
        scores = masked(scores, mask, x)
        eager = output_attentions or getattr(config, "_attn_implementation", None) == "eager"
        states, attentions = [x], []
        for i in range(config.num_hidden_layers):
            block = getattr(self, str(i))
            if self.gradient_checkpointing and self.training:
                x, shares = self._gradient_checkpointing_func(block.__call__, x, scores, turns, eager)
            else:
                x, shares = block(x, scores, turns, eager)
            states.append(x)
            attentions.append(shares)
        states[-1] = x = self.norm(x)
        return BaseModelOutput(last_hidden_state=x, hidden_states=tuple(states) if output_hidden_states else None,
                               attentions=tuple(attentions) if output_attentions else None)


class ComeraPreTrainedModel(PreTrainedModel):
    config_class = ComeraConfig
    base_model_prefix = "comera"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means of their batch: Trainer divides them by the packs of a step
    _no_split_modules = ["Block"]
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module):
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, nn.LayerNorm) or parameter.dim() < 2:
                parameter.fill_(1.0 if isinstance(module, nn.LayerNorm) and name == "weight" else 0.0)
            elif isinstance(module, nn.Linear):
                parameter.normal_(0.0, math.sqrt(1 / sum(parameter.shape)))
            else:
                parameter.normal_(0.0, self.config.initializer_range)

    def get_input_embeddings(self):
        """A module that makes vectors of ids; of a tensor-train table it has cores, not a weight."""
        return self.base_model.embedding.tokens

    def set_input_embeddings(self, value):
        raise NotImplementedError("the token table of a comera model cannot be replaced: its head decodes with it")

    def resize_token_embeddings(self, new_num_tokens=None, *args, **kwargs):
        if new_num_tokens not in (None, self.config.vocab_size):
            raise NotImplementedError(f"the vocabulary of a comera model stays as it is: {self.config.vocab_size}")
        return self.get_input_embeddings()

    def given(self, output, return_dict):
        """An output as a tuple where that is asked for."""
        wanted = getattr(self.config, "return_dict", True) if return_dict is None else return_dict
        return output if wanted else output.to_tuple()


class ComeraModel(ComeraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        if config.matrices != "outputs_inputs":
            raise ValueError("the weights were written for another version of modeling_comera.py; use that")
        self.embedding = Embedding(config)
        self.encoder = Encoder(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
                inputs_embeds=None, output_attentions=None, output_hidden_states=None, return_dict=None):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        tokens = self.embedding.tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if token_type_ids is None:
            token_type_ids = torch.zeros(tokens.shape[:2], dtype=torch.long, device=tokens.device)
        if output_attentions is None:
            output_attentions = getattr(self.config, "output_attentions", False)
        if output_hidden_states is None:
            output_hidden_states = getattr(self.config, "output_hidden_states", False)
        x = self.embedding(tokens, token_type_ids, position_ids)
        output = self.encoder(x, attention_mask, position_ids, bool(output_hidden_states), bool(output_attentions),
                              getattr(self.embedding, "relative_bias", None))
        return self.given(output, return_dict)


class MaskedLanguageHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transform = linear(config, "head.transform", config.hidden_size, config.embedding_size)
        self.activation = ACT2FN[config.hidden_act]
        self.norm = layer_norm(config, config.embedding_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden, table):
        return table.decode(self.norm(self.activation(self.transform(hidden)))) + self.bias


class ComeraForMaskedLM(ComeraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.comera = ComeraModel(config)
        self.head = MaskedLanguageHead(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
                inputs_embeds=None, labels=None, output_attentions=None, output_hidden_states=None,
                return_dict=None):
        found = self.comera(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
                            output_attentions, output_hidden_states, return_dict=True)
        logits = self.head(found.last_hidden_state, self.comera.embedding.tokens)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return self.given(MaskedLMOutput(loss=loss, logits=logits, hidden_states=found.hidden_states,
                                         attentions=found.attentions), return_dict)


class SequenceHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        separate = config.pairs == "separate"
        self.pooler = linear(config, "head.pooler", config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear((4 if separate else 1) * config.hidden_size, config.num_labels)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.mean = config.pooling == "mean"

    def pool(self, hidden, mask):
        if self.mean:
            if mask is None:
                mask = hidden.new_ones(hidden.shape[:2])
            if mask.dim() != 2:
                raise ValueError("the head takes the mean over a text's tokens: give an attention_mask (texts, tokens)")
            weights = mask.to(hidden)[..., None]
            hidden = (hidden * weights).sum(1) / weights.sum(1)
        else:
            hidden = hidden[:, 0]
        return torch.tanh(self.pooler(hidden))


class ComeraForSequenceClassification(ComeraPreTrainedModel):
    """Where config.pairs is "separate", the second text of each pair is given as second_input_ids."""

    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.comera = ComeraModel(config)
        self.head = SequenceHead(config)
        self.post_init()

    def pooled(self, ids, mask, *others):
        found = self.comera(ids, mask, *others, return_dict=True)
        return self.head.pool(found.last_hidden_state, mask), found

    def loss(self, logits, labels):
        """As transformers' classifiers choose it, by config.problem_type or by the labels' kind."""
        kind = self.config.problem_type
        if kind is None:
            whole = not labels.is_floating_point()
            kind = ("regression" if self.num_labels == 1 else
                    "single_label_classification" if whole else "multi_label_classification")
        if kind == "regression":
            return F.mse_loss(logits.squeeze(-1), labels.to(logits).view_as(logits.squeeze(-1)))
        if kind == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits))
        return F.cross_entropy(logits.view(-1, self.num_labels), labels.view(-1))

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
                inputs_embeds=None, second_input_ids=None, second_attention_mask=None, labels=None,
                output_attentions=None, output_hidden_states=None, return_dict=None):
        features, found = self.pooled(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
                                      output_attentions, output_hidden_states)
        if self.config.pairs == "separate":
            if second_input_ids is None:
                raise ValueError("this model compares two texts: give the second one as second_input_ids")
            other, _found = self.pooled(second_input_ids, second_attention_mask)
            features = torch.cat((features, other, (features - other).abs(), features * other), -1)
        logits = self.head.classifier(self.head.dropout(features))
        loss = None if labels is None else self.loss(logits, labels)
        return self.given(SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=found.hidden_states,
                                                   attentions=found.attentions), return_dict)


class ComeraForTokenClassification(ComeraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.comera = ComeraModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.head = nn.ModuleDict({"labels": nn.Linear(config.hidden_size, config.num_labels)})
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
                inputs_embeds=None, labels=None, return_dict=None, **others):
        found = self.comera(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
                            return_dict=True, **others)
        logits = self.head["labels"](self.dropout(found.last_hidden_state))
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return self.given(TokenClassifierOutput(loss=loss, logits=logits, hidden_states=found.hidden_states,
                                                attentions=found.attentions), return_dict)


class ComeraForQuestionAnswering(ComeraPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.comera = ComeraModel(config)
        self.head = nn.ModuleDict({"spans": nn.Linear(config.hidden_size, 2)})
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
                inputs_embeds=None, start_positions=None, end_positions=None, return_dict=None, **others):
        found = self.comera(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
                            return_dict=True, **others)
        both = [logits.contiguous() for logits in self.head["spans"](found.last_hidden_state).unbind(-1)]
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = sum(F.cross_entropy(logits, places.flatten())
                       for logits, places in zip(both, (start_positions, end_positions))) / 2
        return self.given(QuestionAnsweringModelOutput(loss=loss, start_logits=both[0], end_logits=both[1],
                                                       hidden_states=found.hidden_states,
                                                       attentions=found.attentions), return_dict)
