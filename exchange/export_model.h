#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exchange/transformers/transformers_form.h"
#include "training/inference/trained_model.h"

namespace comera::exchange {

struct ExportOptions {
  bool tensor_trains = false;  // the cores themselves, instead of the matrices that they stand for
  bool overwrite = false;      // an export that the folder holds
};

struct Exported {
  Form form = Form::comera;
  std::string reason = {};          // why `comera`; else empty
  std::int64_t parameters = 0;      // numbers in the files
  std::int64_t dense = 0;           // of the same model with every layer dense
  double difference = 0;            // the largest between logits of the model and of what was read back,
  double largest_logit = 0;         // beside the largest logit
  std::string tokenizer_note = {};  // why there is no tokenizer.json; else empty
};

// Writes a model's config.json and model.safetensors, with modeling_comera.py where the form needs it, into a
// folder, which is made if need be. Then reads them back and compares what both models say (probe.h): Error
// if that is something else. special: of the tokenizer; labels: of a classification head, empty if they have
// no names. Throws UsageError if tensor trains are asked of a model without any.
Exported export_weights(const Model& model, const Processor& processor, const data::SpecialIds& special,
                        const std::vector<std::string>& labels, const std::filesystem::path& folder,
                        const ExportOptions& options);

// The same, and the tokenizer's files and README.md, so that Hugging Face's transformers loads the folder. It
// gets its files when all are written and read back; after an error it is as before. run: the run's folder if
// the model came from one, for its scores; else empty.
Exported export_model(const LoadedModel& loaded, const std::filesystem::path& run,
                      const std::filesystem::path& folder, const ExportOptions& options);

// The files that it may write.
std::vector<std::string> exported_files();

}  // namespace comera::exchange
