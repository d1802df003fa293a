#pragma once

#include <array>
#include <string>
#include <vector>

#include "batches/packed_batch.h"
#include "model/config.h"
#include "optim/optimizer.h"

namespace comera::test {

// One encoder of the fixture (README.md), as make_fixture.py wrote it.
struct OracleCase {
  struct Parameter {
    std::string name, role, shape;  // shape: "3x2x4"
  };
  struct Sequences {
    std::vector<std::int32_t> lengths, ids, types, positions, masked_rows, masked_targets, labels;
  };

  EncoderConfig config;
  std::vector<Parameter> parameters;  // in the order of the vectors below
  Sequences sequences;
  OptimizerOptions optimizer;
  LearningRates rates;
  double max_norm = 0;

  std::vector<double> initial;
  std::vector<double> hidden;  // (tokens, hidden)
  std::vector<double> logits;  // (targets, classes or vocabulary)
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::vector<double> gradient;                  // of loss_sum
  std::vector<double> gradient_norms;            // of each step, divided by targets, before clipping
  std::vector<std::vector<double>> after_steps;  // parameters after each optimizer step
};

OracleCase read_oracle(const std::string& name);

// Its sequences as a batch with room to spare. right_rows: of the token embedding.
PackedBatch micro_batch(const OracleCase& oracle, std::int64_t right_rows);

}  // namespace comera::test
