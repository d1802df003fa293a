#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exchange/transformers_form.h"
#include "training/trained_model.h"

namespace comera::exchange {

struct ExportOptions {
  bool tensor_trains = false;  // the cores themselves, instead of the matrices that they stand for
};

struct Exported {
  Form form = Form::comera;
  std::string reason = {};      // why `comera`; else empty
  std::int64_t parameters = 0;  // numbers in the files
  std::int64_t dense = 0;       // of the same model with every layer dense
  double difference = 0;        // the largest between logits of the model and of what was read back,
  double largest_logit = 0;     // beside the largest logit
};

// Writes a model as a folder that Hugging Face's transformers loads: config.json, model.safetensors, the
// tokenizer's files, README.md, and modeling_comera.py where the form needs it. Then reads it back and
// compares what both say (probe.h). run: the run's folder if the model came from one, for its scores; else
// empty. Throws UsageError if tensor trains are asked of a model without any, and Error if what was read back
// says something else.
Exported export_model(const LoadedModel& loaded, const std::filesystem::path& run,
                      const std::filesystem::path& folder, const ExportOptions& options);

// The files that it writes, for those who want to know before.
std::vector<std::string> exported_files();

}  // namespace comera::exchange
