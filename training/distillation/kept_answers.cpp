#include "training/distillation/kept_answers.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/ops/processor.h"
#include "reports/number_text.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/hash.h"
#include "storage/hdf5.h"
#include "training/distillation/trained_teacher.h"
#include "training/inference/gathered_values.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/tasks/encoder_task.h"

namespace comera {

namespace {

constexpr const char* format_name = "comera-answers";
constexpr std::int64_t tokens_at_once = 4096;

class AnsweredSamples final : public data::SampleSource {
 public:
  AnsweredSamples(std::unique_ptr<data::SampleSource> samples, const KeptAnswers& answers,
                  const EncoderConfig& student)
      : samples_(std::move(samples)), answers_(answers), student_(student) {}

  std::int32_t vocabulary() const override { return samples_->vocabulary(); }
  const data::SpecialIds& special() const override { return samples_->special(); }
  std::int64_t count() const override { return samples_->count(); }
  void begin_epoch(std::uint64_t seed, std::int64_t epoch) override { samples_->begin_epoch(seed, epoch); }
  std::int64_t sequences_per_sample() const override { return samples_->sequences_per_sample(); }
  std::vector<std::int32_t> lengths() const override { return samples_->lengths(); }
  std::int64_t length(std::int64_t sample) const override { return samples_->length(sample); }
  bool masked() const override { return samples_->masked(); }
  void read(std::int64_t sample, data::Sample& to) override {
    samples_->read(sample, to);
    const std::span<const float> answer = answers_.of(sample);
    to.taught.assign(answer.begin(), answer.end());
    if (student_.head != HeadKind::regression) return;
    for (std::size_t i = answers_.vector_width(); i < to.taught.size(); ++i)
      to.taught[i] = static_cast<float>(student_.output_of(to.taught[i]));
  }
  void complete(data::Batch& batch) const override { samples_->complete(batch); }

 private:
  std::unique_ptr<data::SampleSource> samples_;
  const KeptAnswers& answers_;
  const EncoderArchitecture student_;
};

std::string made_for(const StudentOf& student, const std::string& rows) {
  const EncoderConfig& own = student.config;
  const DistillationConfig& learned = own.distillation;
  const bool joint = reads_sequences(own.head) && own.pairs == PairEncoding::joint;
  return fmt::format("{}{}of {}texts of up to {} tokens and {} types, in {}, {}, labels {}, tokenizer {}",
                     learned.of_vectors() ? "vectors " : "", learned.logits > 0 ? "logits " : "",
                     joint ? "joint " : "", student.recipe.phases[0].length, own.types, name_of(own.compute),
                     rows, fmt::join(student.recipe.task.labels, ","), student.tokenizer.hash());
}

std::string made_for(const StudentOf& student) { return made_for(student, student.task.fingerprint()); }

// Whether answers were made for what differs from this student in the rows of its task alone.
bool differ_in_rows(const std::string& made, const StudentOf& student) {
  const std::string mark = "\n", own = made_for(student, mark);
  const std::size_t place = own.find(mark);
  return made.size() + mark.size() >= own.size() && made.starts_with(own.substr(0, place)) &&
         made.ends_with(own.substr(place + mark.size()));
}

// Asks the teacher for the answers of a file, in all processes together.
class Questions {
 public:
  Questions(const StudentOf& student, const std::function<bool()>& stop, Communicator& processes)
      : student_(student),
        stop_(stop),
        processes_(processes),
        trained_(student.recipe, student.tokenizer, student.config, student.processor) {
    const EncoderConfig& theirs = trained_.teacher().model().config();
    if (student.config.distillation.of_vectors()) vector_width_ = theirs.vector_width();
    width_ = vector_width_ + (student.config.distillation.logits > 0 ? theirs.sequence_outputs() : 0);
    count_ = student.task.training_samples(length())->count();
  }

  std::string text(const std::filesystem::path& path) const {
    return fmt::format(
        "answers          of the teacher: {} x {} numbers, {:.1f} MiB, kept in {} and in memory",
        grouped(count_), width_, static_cast<double>(count_ * width_) * sizeof(float) / 1048576,
        path.string());
  }

  void ask() {
    using Output = InferenceEngine::Output;
    const Ticker ticker("the teacher's answers");
    answers_.resize(count_ * width_);
    const bool of_mean = trained_.teacher().pooling() == Pooling::mean;
    if (vector_width_ > 0) ask(of_mean ? Output::mean : Output::first, 0);
    if (width_ > vector_width_) ask(Output::predictions, vector_width_);
  }

  void write(const std::filesystem::path& path) const {
    storage::create_directories_durably(path.parent_path());
    storage::DurableFile durable(path);
    storage::hdf5::File file = storage::hdf5::File::create(durable.temporary());
    file.write<float>("answers", answers_, {count_, width_});
    file.set_attribute("/", "format", std::string(format_name));
    file.set_attribute("/", "vector_width", vector_width_);
    file.set_attribute("/", "teacher", trained_.file().path);
    file.set_attribute("/", "teacher_fingerprint", trained_.file().content);
    file.set_attribute("/", "made_for", made_for(student_));
    file.set_attribute("/", "replaced_words", student_.recipe.distillation->replaced_words);
    file.close();
    durable.commit();
  }

 private:
  std::int64_t length() const { return student_.recipe.phases[0].length; }

  // Writes this output of all samples behind `offset` numbers of each.
  void ask(InferenceEngine::Output output, std::int64_t offset) {
    InferenceEngine engine(trained_.teacher().model(), output, student_.processor);
    const std::int64_t numbers = engine.width();
    const auto values = gathered_values(
        engine, student_.task.training_samples(length()),
        data::capacity_for(std::max(tokens_at_once, 2 * length()), length(), 0, student_.config.vocabulary),
        count_ * numbers, keep_row, stop_, processes_);
    if (!values)
      throw UsageError("stopped before the teacher had answered all texts; nothing was written, start again");
    for (std::int64_t i = 0; i < count_ * numbers; ++i)
      answers_[i / numbers * width_ + offset + i % numbers] = static_cast<float>((*values)[i]);
  }

  const StudentOf& student_;
  const std::function<bool()>& stop_;
  Communicator& processes_;
  TrainedTeacher trained_;
  std::int64_t count_ = 0, vector_width_ = 0, width_ = 0;
  std::vector<float> answers_;
};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw UsageError(
      fmt::format("{}: {}; remove the file, or name another one in distillation.cache", path.string(), what));
}

storage::hdf5::File opened(const std::filesystem::path& path) {
  try {
    return storage::hdf5::File::open(path);
  } catch (const Error& error) {
    throw Error(fmt::format("{}; remove the file, and the teacher is asked again", error.what()));
  }
}

}  // namespace

KeptAnswers::KeptAnswers(const std::filesystem::path& path) {
  const storage::hdf5::File file = opened(path);
  if (!file.has_attribute("/", "format") || file.string_attribute("/", "format") != format_name)
    refuse(path, "is no file of a teacher's answers");
  const storage::hdf5::DatasetInfo info = file.info("answers");
  COMERA_CHECK(info.shape.size() == 2, "{}: the answers are no rows of numbers; make the file again",
               path.string());
  count_ = info.shape[0];
  width_ = info.shape[1];
  vector_width_ = file.int64_attribute("/", "vector_width");
  answers_ = file.read<float>("answers");
  teacher_ = {"distillation.teacher", file.string_attribute("/", "teacher"),
              file.string_attribute("/", "teacher_fingerprint")};
  made_for_ = file.string_attribute("/", "made_for");
  if (file.has_attribute("/", "replaced_words"))  // earlier versions did not replace any
    replaced_words_ = file.double_attribute("/", "replaced_words");
  const auto bytes = std::as_bytes(std::span(answers_));
  file_ = {"distillation.cache", path.string(),
           storage::hash128({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).hex()};
}

std::unique_ptr<const KeptAnswers> find_answers(const StudentOf& student,
                                                const std::function<void(const std::string&)>& log,
                                                const std::function<bool()>& stop, Communicator& processes) {
  const DistillationSection& section = *student.recipe.distillation;
  const std::filesystem::path path = storage::from_root(section.cache).lexically_normal();
  const std::string there =
      on_first(processes, [&] { return std::string(storage::exists(path) ? "there" : ""); });
  if (there.empty()) {
    Questions questions(student, stop, processes);
    if (processes.first()) log(questions.text(path));
    questions.ask();
    on_first(processes, [&] {
      questions.write(path);
      return std::string();
    });
  }
  if (!storage::exists(path))
    refuse(path,
           "is not on this machine, though another process has made it; all machines need the same folder");
  auto answers = std::make_unique<KeptAnswers>(path);
  const auto teacher = find_trained_model(section.teacher).reader;
  if (answers->teacher().content != teacher->fingerprint())
    refuse(path, "has the answers of another teacher");
  if (answers->replaced_words() != section.replaced_words)
    throw UsageError(
        fmt::format("{}: has answers to texts of which a share of {} of the words is replaced; set "
                    "distillation.replaced_words to that, or name another file in distillation.cache",
                    path.string(), answers->replaced_words()));
  if (const std::string& made = answers->made_for(); made != made_for(student)) {
    if (differ_in_rows(made, student))
      throw UsageError(
          fmt::format("{}: has answers to other rows, columns or labels than the training files hold now; "
                      "give what it was made of, or remove it, and the teacher is asked again",
                      path.string()));
    refuse(path, "has answers of another kind, length or number format");
  }
  return answers;
}

std::unique_ptr<data::SampleSource> with_answers(std::unique_ptr<data::SampleSource> samples,
                                                 const KeptAnswers& answers, const EncoderConfig& student) {
  COMERA_CHECK(samples->count() == answers.count(), "{} answers were kept of {} texts", answers.count(),
               samples->count());
  return std::make_unique<AnsweredSamples>(std::move(samples), answers, student);
}

}  // namespace comera
