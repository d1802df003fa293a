#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "data/masking/masked_text.h"
#include "data/tables/examples.h"
#include "exchange/transformers/transformers_folder.h"
#include "kernels/backends/backends.h"
#include "kernels/core/tensors/finite.h"
#include "python/arrays.h"
#include "training/inference/fillings.h"
#include "training/inference/inference_engine.h"
#include "training/inference/trained_model.h"
#include "training/tasks/sequence_task.h"

namespace comera::python {

namespace {

using Texts = std::vector<std::vector<std::string>>;

// A trained model and what numpy users ask of it. Lengths and pooling are as in the commands.
class PythonModel {
 public:
  PythonModel(const std::filesystem::path& path, const std::string& device, int threads, std::int64_t length,
              const std::vector<std::string>& settings)
      : loaded_((prepare_threads(threads), path), {}, settings, device, length), length_(length) {
    if (length_ == 0)
      for (const PhaseSection& phase : loaded_.recipe.phases) length_ = std::max(length_, phase.length);
    const EncoderConfig& config = loaded_.model.config();
    if (length_ == 0) length_ = config.max_positions;
    if (config.positions == Positions::learned && length_ > config.max_positions)
      throw UsageError(fmt::format("{} reads {} tokens at most; give a length up to that", path.string(),
                                   config.max_positions));
  }

  std::string path() const { return loaded_.trained.checkpoint.string(); }
  std::string recipe() const { return to_toml(loaded_.recipe); }
  std::vector<std::string> labels() const { return loaded_.recipe.task.labels; }
  std::int64_t hidden() const { return loaded_.model.config().hidden; }
  std::int64_t vocabulary() const { return loaded_.tokenizer.vocabulary(); }
  std::int64_t parameters() const { return loaded_.model.parameters().count(); }
  std::int64_t length() const { return length_; }

  Array<std::int32_t> encode(const std::string& text) const {
    const std::vector<std::int32_t> ids = loaded_.tokenizer.encode(text);
    return array_of<std::int32_t>(ids, {ids.size()});
  }
  std::string decode(const std::vector<std::int32_t>& ids) const { return loaded_.tokenizer.decode(ids); }
  std::string piece(std::int32_t id) const { return loaded_.tokenizer.piece(id); }

  Array<float> embed(const Texts& texts, const std::string& pooling) const {
    if (!pooling.empty() && pooling != "mean" && pooling != "first")
      throw UsageError("pooling is \"mean\" or \"first\", not \"" + pooling + "\"");
    const bool mean = chosen_pooling(loaded_, pooling,
                                     "give pooling=\"mean\" or \"first\" for vectors of the encoder alone") ==
                      Pooling::mean;
    return run(texts, mean ? InferenceEngine::Output::mean : InferenceEngine::Output::first);
  }

  Array<float> predict(const Texts& texts) const {
    if (is_pretraining(loaded_.model.config().head))
      throw UsageError(path() + ": is a pretrained model without a task; fine-tune it first, or use embed()");
    if (loaded_.model.config().head == HeadKind::contrastive)
      throw UsageError(path() + ": is trained for vectors and has no labels to predict; use embed()");
    if (!reads_sequences(loaded_.model.config().head))
      throw UsageError(path() + ": labels words or finds answers; use comera predict, or embed()");
    require_trained_head(*loaded_.trained.reader, "fine-tune it first, or use embed()");
    return run(texts, InferenceEngine::Output::predictions);
  }

  // For each text, for each mark, the likeliest pieces.
  using Guess = std::pair<std::string, double>;
  std::vector<std::vector<std::vector<Guess>>> fill_mask(const std::vector<std::string>& texts,
                                                         std::int64_t top) const {
    if (loaded_.model.config().head != HeadKind::mlm)
      throw UsageError(path() + ": has no masked-language head to fill masks with");
    require_trained_head(*loaded_.trained.reader, "pretrain it first, or use embed()");
    const nb::gil_scoped_release without_gil;
    std::vector<data::Sample> samples;
    std::vector<std::vector<std::vector<Guess>>> guesses;
    const data::MaskedTextReader reader(loaded_.tokenizer);
    std::vector<data::MaskedText> read;
    for (const std::string& text : texts) {
      const data::MaskedText& masked = read.emplace_back(reader.read(text));
      if (masked.positions.empty())
        throw UsageError("a text has no [MASK]: put it where a piece is to be predicted");
      require_length(std::ssize(masked.ids));
      data::Sample& sample = samples.emplace_back();
      sample.ids = masked.ids;
      sample.type_ids.resize(masked.ids.size());
      sample.targets = {masked.positions, std::vector<std::int32_t>(masked.positions.size())};
      guesses.emplace_back(masked.positions.size());
    }
    run_masked(loaded_.model, loaded_.processor, samples, loaded_.tokenizer.special(),
               [&](std::size_t text, std::size_t mark, std::span<const double> logits) {
                 require_finite(logits);
                 for (const Filling& filling : likeliest(logits, loaded_.tokenizer.vocabulary(), top))
                   guesses[text][mark].emplace_back(reader.filled(read[text], mark, filling.id).filling,
                                                    filling.probability);
               });
    return guesses;
  }

  std::vector<std::string> parameter_names() const {
    std::vector<std::string> names;
    const ParameterStore& store = loaded_.model.parameters();
    for (ParameterId id = 0; id < store.size(); ++id) names.push_back(store.info(id).name);
    return names;
  }
  Array<float> parameter(const std::string& name) const {
    const ParameterStore& store = loaded_.model.parameters();
    const auto id = store.find(name);
    if (!id) throw nb::key_error(name.c_str());
    return shaped(read_tensor(store.value(*id), store.allocator()), store.info(*id).shape);
  }

  std::vector<std::string> layers() const {
    std::vector<std::string> names = {std::string(EncoderConfig::embedding_layer)};
    for (const Linear* linear : loaded_.model.linears())
      for (int i = 0; i < linear->outputs(); ++i) names.push_back(linear->output_name(i));
    return names;
  }
  Array<float> weight(const std::string& layer) const {
    const EncoderConfig& config = loaded_.model.config();
    if (layer == EncoderConfig::embedding_layer)
      return array_of<float>(loaded_.model.token_embedding().table(),
                             sizes_of({config.vocabulary, config.table_width()}));
    for (const Linear* linear : loaded_.model.linears())
      for (int i = 0; i < linear->outputs(); ++i)
        if (linear->output_name(i) == layer) {
          const std::vector<double> matrix = linear->matrix(i);
          const std::int64_t outputs = loaded_.model.parameters()
                                           .info(*loaded_.model.parameters().find(layer + ".bias"))
                                           .shape.elements();
          return array_of<float>(matrix, sizes_of({std::ssize(matrix) / outputs, outputs}));
        }
    throw nb::key_error(layer.c_str());
  }
  std::vector<Array<float>> cores(const std::string& layer) const {
    const ParameterStore& store = loaded_.model.parameters();
    std::vector<Array<float>> cores;
    while (const auto id = store.find(layer + ".core." + std::to_string(cores.size())))
      cores.push_back(shaped(exchange::exported_values(store, *id), store.info(*id).shape));
    if (cores.empty()) static_cast<void>(weight(layer));  // there is such a layer, dense or removed
    return cores;
  }

 private:
  static Array<float> shaped(const std::vector<double>& values, const Shape& shape) {
    return array_of<float>(values, {shape.sizes().begin(), shape.sizes().end()});
  }

  void require_length(std::int64_t tokens) const {
    if (tokens > length_)
      throw UsageError("a text has " + std::to_string(tokens) +
                       " tokens with [CLS] and [SEP], and sequences at most " + std::to_string(length_) +
                       ": shorten it, or load the model with a larger length");
  }
  void require_finite(std::span<const double> values) const {
    if (!all_finite(values))
      throw Error(path() +
                  ": its output is not finite, because training has diverged; use an older checkpoint");
  }

  Array<float> run(const Texts& texts, InferenceEngine::Output output) const {
    std::vector<float> rows;
    std::int64_t width = 0;
    {
      const nb::gil_scoped_release without_gil;
      const EncoderConfig& config = loaded_.model.config();
      const bool separate = output == InferenceEngine::Output::predictions &&
                            config.pairs == PairEncoding::separate && reads_sequences(config.head);
      for (const std::vector<std::string>& one : texts)
        if (separate && one.size() != 2) throw UsageError("this model compares two texts: give pairs");
      const auto examples = data::Examples::of_texts(texts, loaded_.tokenizer, length_);
      InferenceEngine engine(loaded_.model, output, loaded_.processor);
      width = engine.width();
      rows.resize(texts.size() * static_cast<std::size_t>(width));
      constexpr std::int64_t usual_tokens = 4096;
      const MicroBatchCapacity capacity =
          data::capacity_for(std::max(usual_tokens, length_), length_, 0, config.vocabulary);
      if (!texts.empty())
        engine.run(std::make_unique<data::ExampleSamples>(examples, length_, config.types, separate),
                   capacity, [&](std::int64_t sample, std::span<const double> values) {
                     require_finite(values);
                     std::ranges::copy(values, rows.begin() + sample * width);
                   });
    }
    return array_of<float>(rows, sizes_of({std::ssize(texts), width}));
  }

  LoadedModel loaded_;
  std::int64_t length_;  // the most tokens of a sequence
};

}  // namespace

void add_model(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<PythonModel>(module, "Model", "A trained model: comera.load() makes it.")
      .def(nb::init<const std::filesystem::path&, const std::string&, int, std::int64_t,
                    const std::vector<std::string>&>(),
           "path"_a, "device"_a = "auto", "threads"_a = 0, "length"_a = 0,
           "settings"_a = std::vector<std::string>())
      .def_prop_ro("path", &PythonModel::path, "The checkpoint that was read.")
      .def_prop_ro("recipe", &PythonModel::recipe, "The recipe that it was trained by, as TOML.")
      .def_prop_ro("labels", &PythonModel::labels, "The names of its classes or labels.")
      .def_prop_ro("hidden", &PythonModel::hidden, "The width of its vectors.")
      .def_prop_ro("vocabulary", &PythonModel::vocabulary, "The number of its tokenizer's pieces.")
      .def_prop_ro("parameters", &PythonModel::parameters, "The number of its parameters.")
      .def_prop_ro("length", &PythonModel::length, "The most tokens of a sequence, [CLS] and [SEP] included.")
      .def("encode", &PythonModel::encode, "text"_a, "Ids of a text without special pieces: int32 (tokens).")
      .def("decode", &PythonModel::decode, "ids"_a, "The text of ids; special pieces are nothing.")
      .def("piece", &PythonModel::piece, "id"_a, "The piece with this id.")
      .def("embed_texts", &PythonModel::embed, "texts"_a, "pooling"_a = "",
           "Vectors of texts, each a list of one or two: float32 (texts, hidden).")
      .def("predict_texts", &PythonModel::predict, "texts"_a,
           "The head's outputs for texts, each a list of one or two: float32 (texts, outputs).")
      .def("fill_texts", &PythonModel::fill_mask, "texts"_a, "top"_a = 5,
           "For each text, for each [MASK] in it, the likeliest pieces with their probabilities.")
      .def("parameter_names", &PythonModel::parameter_names, "The names of all parameters.")
      .def("parameter", &PythonModel::parameter, "name"_a, "A parameter as it is stored: float32.")
      .def("layers", &PythonModel::layers,
           "The names of the token table and of all linear layers but the classifier.")
      .def("weight", &PythonModel::weight, "layer"_a,
           "The dense matrix that a layer stands for: float32 (inputs, outputs), or (vocabulary, width) of "
           "the table.")
      .def(
          "cores", &PythonModel::cores, "layer"_a,
          "The cores of a tensor train, gates multiplied in: float32 (r, n, r') each, of the table (r, rows, "
          "columns, r'). Empty if the layer is dense or removed.");
}

}  // namespace comera::python
