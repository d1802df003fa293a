#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/clicks/click_encoding.h"
#include "data/clicks/click_loader.h"
#include "kernels/ops/processor.h"
#include "model/dlrm/dlrm.h"
#include "training/inference/trained_model.h"

namespace comera {

// A trained click model in a device's memory, for evaluation and prediction.
struct LoadedClickModel {
  // device: as in find_processor(). UsageError if the checkpoint holds an encoder.
  LoadedClickModel(const std::filesystem::path& path, const std::string& device);

  // Batches of `examples` examples. Error if the examples were encoded differently from the training
  // examples.
  data::ClickLoaderOptions micro_batches(std::int64_t examples) const;
  void require_same_encoding(const std::string& fingerprint, const std::string& of) const;
  // The encoding of the training examples: from the given file, or from the checkpoint's run. Error if it is
  // another encoding, UsageError if there is none.
  data::ClickEncoding load_encoding(const std::filesystem::path& given = {}) const;

  TrainedModel trained;
  Recipe recipe;
  std::string encoding;  // fingerprint of the encoding that produced the ids
  Processor processor;
  Dlrm model;
};

}  // namespace comera
