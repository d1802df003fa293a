#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/model_state.h"
#include "exchange/onnx/onnx_export.h"
#include "exchange/transformers/transformers_form.h"
#include "training/inference/trained_model.h"

namespace comera::exchange {

struct ExportOptions {
  bool tensor_trains = false;  // the cores themselves instead of the matrices they represent
  // For sentence-transformers: the encoder without its head, and the modules around it. Contrastive models
  // and those with a head for replaced tokens are always written so. An encoder that was imported without a
  // head is written without one, with modules if they were in its folder.
  bool sentence_vectors = false;
  bool overwrite = false;    // replaces an export in the folder
  bool onnx = false;         // also model.onnx
  OnnxOptions of_onnx = {};  // with 8 bits: also model_quantized.onnx
};

struct Exported {
  Form form = Form::comera;
  std::string reason = {};      // why the form is `comera`; else empty
  std::int64_t parameters = 0;  // parameters in the files
  std::int64_t own = 0;         // of the model that was exported, as it is
  std::int64_t dense = 0;       // of the same model with every layer dense
  // The largest difference between the logits of the model and of the files read back, next to the largest
  // logit; of an encoder for sentence vectors, those of its vectors.
  double difference = 0;
  double largest_logit = 0;
  bool without_head = false;        // the encoder alone
  bool sentence_vectors = false;    // with the modules around it
  bool has_pooler = false;          // that of an imported model, which the model itself does not use
  bool loses_pooler = false;        // it has one, for which the form has no place
  std::string tokenizer_note = {};  // why there is no tokenizer.json; else empty
};

// Writes a model's config.json and model.safetensors, with modeling_comera.py if the form needs it, and ONNX
// files if they are asked for, into a folder, which is created if necessary. Then reads them back and
// compares both models' logits (probe.h): Error if they differ. special: of the tokenizer; labels: of a
// classification head, empty if they have no names. carried: the pooler that an import has kept; written if
// the form has a place for it. Throws UsageError if tensor trains are requested from a model without any.
Exported export_weights(const Model& model, const Processor& processor, const data::SpecialIds& special,
                        const std::vector<std::string>& labels, const std::filesystem::path& folder,
                        const ExportOptions& options, const std::vector<CarriedParameter>& carried = {});

// The same with the tokenizer's files and README.md, so that Hugging Face's transformers loads the folder.
// The folder gets its files when all are written and verified; after an error it is unchanged. run: the
// folder of the model's run, for its scores; else empty.
Exported export_model(const LoadedModel& loaded, const std::filesystem::path& run,
                      const std::filesystem::path& folder, const ExportOptions& options);

// The files that it may write.
std::vector<std::string> exported_files();

}  // namespace comera::exchange
