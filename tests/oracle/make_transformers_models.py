#!/usr/bin/env python3
"""Writes tests/oracle/transformers/: small models of Hugging Face's transformers with random weights, and what they
say of a few sequences. Import must agree with them (tests/exchange/import_test.cpp).

    python3 tests/oracle/make_transformers_models.py        # needs torch and transformers
"""
import json
import pathlib
import shutil

import torch
from transformers import (AlbertConfig, AlbertForMaskedLM, AlbertForQuestionAnswering,
                          AlbertForSequenceClassification, BertConfig, BertForMaskedLM, BertForQuestionAnswering,
                          BertForSequenceClassification, BertForTokenClassification, BertModel, DistilBertConfig,
                          DistilBertForMaskedLM, DistilBertForQuestionAnswering, DistilBertForTokenClassification,
                          DistilBertModel, ElectraConfig,
                          ElectraForMaskedLM, ElectraForTokenClassification, ElectraModel, MegatronBertConfig,
                          MegatronBertForMaskedLM, MPNetConfig, MPNetForMaskedLM, MPNetForQuestionAnswering,
                          MPNetForSequenceClassification, MPNetForTokenClassification, MPNetModel, RobertaConfig, RobertaForMaskedLM, RobertaForQuestionAnswering,
                          RobertaForSequenceClassification, RobertaForTokenClassification)

FOLDER = pathlib.Path(__file__).parent / "transformers"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"{p}{c}" for c in "abcdefghij" for p in ("", "##")]
SIZES = dict(vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
             max_position_embeddings=14, initializer_range=0.5, attention_probs_dropout_prob=0.0)
RANDOM = torch.Generator().manual_seed(7)


def shake(model):
    """Norms and biases begin at 1 and 0, where mistakes do not show."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 or "relative_attention_bias" in name:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=RANDOM))


def sequences(config, first):
    found = []
    for length in (70 if config.model_type == "mpnet" else 12, 9, 2):
        ids = torch.randint(5, len(PIECES), (1, length), generator=RANDOM)
        ids[0, 0] = first
        types = torch.zeros_like(ids)
        if getattr(config, "type_vocab_size", 1) > 1:
            types[0, length // 2:] = 1
        found.append((ids, types))
    return found


def save(name, model, first=2):
    model.eval()
    shake(model)
    folder = FOLDER / name
    model.save_pretrained(folder)
    cases = []
    for ids, types in sequences(model.config, first):
        with torch.no_grad():
            out = model(input_ids=ids) if model.config.model_type in ("distilbert", "mpnet") else \
                model(input_ids=ids, token_type_ids=types)
        said = (out.logits[0] if hasattr(out, "logits") else
                torch.stack((out.start_logits[0], out.end_logits[0]), -1) if hasattr(out, "start_logits") else
                out.last_hidden_state[0])
        cases.append({"ids": ids[0].tolist(), "types": types[0].tolist(), "said": said.flatten().tolist()})
    (folder / "cases.json").write_text(json.dumps(cases) + "\n")
    special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"] if model.config.model_type == "mpnet" else PIECES[:5]
    (folder / "vocab.txt").write_text("\n".join(special + PIECES[5:]) + "\n")


def main():
    torch.manual_seed(11)
    shutil.rmtree(FOLDER, ignore_errors=True)
    roberta = dict(SIZES, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)
    labels = dict(id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2})
    save("bert_mlm", BertForMaskedLM(BertConfig(**SIZES)))
    save("bert_classes", BertForSequenceClassification(BertConfig(**SIZES, **labels)))
    save("bert_score", BertForSequenceClassification(BertConfig(**SIZES, num_labels=1)))
    save("bert_encoder", BertModel(BertConfig(**SIZES)))
    save("megatron_mlm", MegatronBertForMaskedLM(MegatronBertConfig(**SIZES)))
    save("roberta_mlm", RobertaForMaskedLM(RobertaConfig(**roberta)))
    save("roberta_classes", RobertaForSequenceClassification(RobertaConfig(**roberta, **labels)))
    narrow = dict(SIZES, embedding_size=6)
    save("electra_mlm", ElectraForMaskedLM(ElectraConfig(**narrow)))
    save("electra_encoder", ElectraModel(ElectraConfig(**narrow)))
    save("albert_mlm", AlbertForMaskedLM(AlbertConfig(**narrow)))
    save("albert_classes", AlbertForSequenceClassification(AlbertConfig(**narrow, **labels)))
    of_words = dict(id2label={0: "O", 1: "B-X", 2: "I-X"}, label2id={"O": 0, "B-X": 1, "I-X": 2})
    save("bert_tokens", BertForTokenClassification(BertConfig(**SIZES, **of_words)))
    save("roberta_tokens", RobertaForTokenClassification(RobertaConfig(**roberta, **of_words)))
    save("electra_tokens", ElectraForTokenClassification(ElectraConfig(**narrow, **of_words)))
    save("bert_answers", BertForQuestionAnswering(BertConfig(**SIZES)))
    save("roberta_answers", RobertaForQuestionAnswering(RobertaConfig(**roberta)))
    save("albert_answers", AlbertForQuestionAnswering(AlbertConfig(**narrow)))
    distilbert = dict(vocab_size=len(PIECES), dim=8, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=14,
                      initializer_range=0.5)
    save("distilbert_mlm", DistilBertForMaskedLM(DistilBertConfig(**distilbert)))
    save("distilbert_encoder", DistilBertModel(DistilBertConfig(**distilbert, activation="relu")))
    save("distilbert_tokens", DistilBertForTokenClassification(DistilBertConfig(**distilbert, **of_words)))
    save("distilbert_answers", DistilBertForQuestionAnswering(DistilBertConfig(**distilbert)))
    mpnet = dict(SIZES, pad_token_id=1, max_position_embeddings=82)
    save("mpnet_mlm", MPNetForMaskedLM(MPNetConfig(**mpnet)))
    save("mpnet_encoder", MPNetModel(MPNetConfig(**mpnet)))
    save("mpnet_classes", MPNetForSequenceClassification(MPNetConfig(**mpnet, **labels)))
    save("mpnet_tokens", MPNetForTokenClassification(MPNetConfig(**mpnet, **of_words)))
    save("mpnet_answers", MPNetForQuestionAnswering(MPNetConfig(**mpnet)))


if __name__ == "__main__":
    main()
