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
  // device: as find_processor() takes it. UsageError if the checkpoint holds an encoder.
  LoadedClickModel(const std::filesystem::path& path, const std::string& device);

  // Batches of so many examples. Error if the examples were not encoded as those it was trained with.
  data::ClickLoaderOptions micro_batches(std::int64_t examples) const;
  void require_same_encoding(const std::string& fingerprint, const std::string& of) const;
  // What encoded the examples that it was trained with: the file that is given, or that of its run. Error if
  // it is another encoding, UsageError if there is none.
  data::ClickEncoding load_encoding(const std::filesystem::path& given = {}) const;

  TrainedModel trained;
  Recipe recipe;
  std::string encoding;  // fingerprint of what made the ids
  Processor processor;
  Dlrm model;
};

}  // namespace comera
