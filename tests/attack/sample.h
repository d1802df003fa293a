#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/attack/child.h"

namespace comera::attack {

// Small inputs of every kind, made by the program itself if possible, and undisturbed runs. Tries read them
// and never change them.
//
//   source/*.py  tok.model  vocab.txt  shards/  masked/  train.tsv dev.tsv train.csv rows.jsonl.gz lines.txt
//   clicks.log  clicks-2.log.gz (of two members)  clicks/ (shards)  glue/RTE/
//   NAME.toml              recipes of whole runs, see recipes(); glue.toml, files.toml (without data)
//   NAME/run               such a run, undisturbed
//   NAME-half/run          the same, stopped in the middle
class Sample {
 public:
  Sample(fs::path folder, std::string program);

  const fs::path& folder() const { return folder_; }
  const std::string& program() const { return program_; }
  fs::path file(const std::string& name) const { return folder_ / name; }

  // plain, adapting, finetune, float8, dense, masked, pretrained (a finetuning of plain), clicks.
  static const std::vector<std::string>& recipes();
  std::string recipe_text(const std::string& recipe) const;
  // The arguments that train it in the current folder, in the subfolder run/.
  std::vector<std::string> training(const std::string& recipe) const;

  struct Finished {
    fs::path run;
    double seconds = 0;
  };
  const Finished& finished(const std::string& recipe) const;
  // The run of a job of two processes, where there is MPI.
  const Finished& finished_by_two(const std::string& recipe) const;
  const fs::path& half(const std::string& recipe) const;  // the run's folder
  // A folder in which this command was run, with only its results; `key` names it.
  struct Made {
    fs::path folder;
    double seconds = 0;
    int changes = 0;  // calls to the system that change files (child.h)
  };
  const Made& made(const std::string& key, const std::vector<std::string>& arguments) const;
  // Folders of models that can be imported: "sentence" is an export of "dense" with its SentencePiece
  // tokenizer, "pieces" has a vocab.txt, "bytes" vocab.json and merges.txt, "pieces-json" and "bytes-json"
  // are exports of these, with a tokenizer.json.
  const fs::path& exchange(const std::string& name) const;
  static const std::vector<std::string>& exchanges();
  // The address space in which the program can start. With less, required libraries fail or hang.
  std::int64_t least_memory() const;

 private:
  void make_source() const;
  void make_tables() const;
  void make_masked() const;
  void make_clicks() const;
  void make_glue() const;
  void call(const std::vector<std::string>& words, const fs::path& folder) const;

  fs::path folder_;
  std::string program_;
  mutable std::recursive_mutex mutex_;
  mutable std::map<std::string, Finished> finished_;
  mutable std::map<std::string, fs::path> half_;
  mutable std::map<std::string, Made> made_;
  mutable std::map<std::string, fs::path> exchange_;
  mutable std::int64_t least_memory_ = 0;
};

// The command that starts two processes on few cores; empty without mpirun. `before` precedes the program.
std::vector<std::string> two_ranks(const std::vector<std::string>& command);
std::vector<std::string> settings_of_ranks();

}  // namespace comera::attack
