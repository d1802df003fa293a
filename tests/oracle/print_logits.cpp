// What a model says of given texts, for comparison with other programs: check_exports.py. A text per line; of
// two texts, a tab between them. Writes a safetensors file with ids, type ids, and logits: of the first, the
// last and every seventh position of a head that reads tokens, or of the sequence.
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "exchange/probe.h"
#include "exchange/safetensors.h"
#include "kernels/core/console.h"
#include "training/inference/trained_model.h"

namespace comera {
namespace {

constexpr std::size_t longest = 100;  // ids of one text

data::Sample sample_of(const std::string& line, const LoadedModel& loaded) {
  const EncoderConfig& config = loaded.model.config();
  const data::SpecialIds& special = loaded.tokenizer.special();
  const std::size_t tab = line.find('\t');
  const bool separate = reads_sequences(config.head) && config.pairs == PairEncoding::separate;
  data::Sample sample;
  const auto add = [&](const std::string& text, bool begins, std::int32_t type) {
    std::vector<std::int32_t> ids = loaded.tokenizer.encode(text);
    ids.resize(std::min(ids.size(), longest));
    if (begins) sample.ids.push_back(special.cls);
    sample.ids.insert(sample.ids.end(), ids.begin(), ids.end());
    sample.ids.push_back(special.separator);
    sample.type_ids.resize(sample.ids.size(), type);
  };
  add(line.substr(0, tab), true, 0);
  if (separate) sample.second = std::ssize(sample.ids);
  if (tab != std::string::npos) add(line.substr(tab + 1), separate, separate || config.types < 2 ? 0 : 1);
  return sample;
}

int print_logits(int argc, char** argv) {
  if (argc != 4) {
    log_info("usage: print_logits MODEL TEXTS OUTPUT.safetensors\n");
    return 2;
  }
  const LoadedModel loaded(argv[1], {}, {"precision.compute=fp32"}, "cpu");
  const EncoderConfig& config = loaded.model.config();
  std::vector<data::Sample> samples;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) samples.push_back(sample_of(line, loaded));

  if (!reads_sequences(config.head))
    for (data::Sample& sample : samples)
      for (std::size_t i = 0; i < sample.ids.size(); ++i)
        if (i % 7 == 0 || i + 1 == sample.ids.size()) {
          sample.targets.positions.push_back(static_cast<std::int32_t>(i));
          sample.targets.ids.push_back(0);
        }
  const auto logits = exchange::answers(loaded.model, loaded.processor, loaded.tokenizer.special(), samples);
  std::vector<exchange::TensorToWrite> tensors;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto add = [&](const char* name, const std::vector<double>& values) {
      const std::int64_t size = std::ssize(values);
      tensors.push_back({fmt::format("{}.{}", i, name), {size}, [values] { return values; }});
    };
    const data::Sample& sample = samples[i];
    add("ids", {sample.ids.begin(), sample.ids.end()});
    add("types", {sample.type_ids.begin(), sample.type_ids.end()});
    add("second", {static_cast<double>(sample.second)});
    add("positions", {sample.targets.positions.begin(), sample.targets.positions.end()});
    add("logits", logits[i]);
  }
  exchange::write_safetensors(argv[3], tensors);
  return 0;
}

}  // namespace
}  // namespace comera

int main(int argc, char** argv) {
  try {
    return comera::print_logits(argc, argv);
  } catch (const std::exception& error) {
    comera::log_info("print_logits: error: {}\n", error.what());
    return 1;
  }
}
