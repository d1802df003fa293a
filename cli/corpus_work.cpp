#include "cli/corpus_work.h"

#include <fmt/format.h>

#include <optional>

#include "cli/options/corpus_options.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"

namespace comera::cli {

namespace {

void print_split(const char* name, const data::SplitCounts& counts) {
  print_out("{:<24}{:>14}{:>14}{:>14}\n", name, grouped(counts.documents), grouped(counts.tokens),
            grouped(counts.shards));
}

}  // namespace

TrainedTokenizer make_tokenizer(data::DocumentSource& corpus, data::TokenizerOptions options) {
  std::optional<CorpusProgress> reading;
  reading.emplace("reading");
  std::optional<Ticker> training;
  options.progress = [&](std::int64_t documents, std::int64_t bytes) { reading->update(documents, bytes); };
  options.read = [&] {
    reading.reset();
    training.emplace("training the tokenizer");
  };
  data::TrainingCounts counts;
  data::Tokenizer tokenizer = data::train_tokenizer(corpus, options, counts);
  training.reset();
  return {std::move(tokenizer), std::move(counts)};
}

void print_vocabulary(const TrainedTokenizer& trained, std::int32_t asked) {
  const data::Tokenizer& tokenizer = trained.tokenizer;
  print_account("tokenizer learned from", trained.counts.documents, trained.counts.bytes, {}, "left out",
                trained.counts.left_out);
  print_out("\n{:<24}{:>14}\n", "vocabulary", grouped(tokenizer.vocabulary()));
  if (tokenizer.vocabulary() < asked)
    log_info("note: the corpus gave {} of the {} pieces requested\n", grouped(tokenizer.vocabulary()),
             grouped(asked));
}

data::BuildCounts make_shards(data::DocumentSource& corpus, const data::Tokenizer& tokenizer,
                              data::BuildOptions options) {
  data::BuildCounts counts = [&] {
    CorpusProgress progress("tokenizing");
    options.progress = [&](const data::BuildProgress& now) { progress.update(now.documents, now.bytes); };
    return data::build_shards(corpus, tokenizer, options);
  }();
  print_corpus_counts(counts.corpus);
  print_out("\n{:<24}{:>14}{:>14}{:>14}\n", "", "documents", "tokens", "shards");
  print_split("train", counts.train);
  print_split("validation", counts.validation);
  const double tokens = static_cast<double>(counts.train.tokens + counts.validation.tokens);
  const double bytes = static_cast<double>(counts.corpus.bytes);
  print_out("\n{:.2f} bytes per token, {:.1f} s, {:.1f} MB/s\nwrote {}\n", tokens > 0 ? bytes / tokens : 0.0,
            counts.seconds, bytes * 1e-6 / counts.seconds, options.output.string());
  return counts;
}

}  // namespace comera::cli
