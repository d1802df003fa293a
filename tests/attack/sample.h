#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/attack/child.h"

namespace comera::attack {

// Small inputs of every kind, made by the program itself where it can, and runs that nothing happened to.
// Tries read them and never change them.
//
//   source/*.py  tok.model  vocab.txt  shards/  masked/  train.tsv dev.tsv train.csv rows.jsonl.gz lines.txt
//   NAME.toml              recipes of whole runs, see recipes()
//   NAME/run               what such a run is when nothing happens to it
//   NAME-half/run          the same, stopped in the middle
class Sample {
 public:
  Sample(fs::path folder, std::string program);

  const fs::path& folder() const { return folder_; }
  const std::string& program() const { return program_; }
  fs::path file(const std::string& name) const { return folder_ / name; }

  // plain, adapting, finetune, float8, dense, masked, pretrained (a finetuning of plain).
  static const std::vector<std::string>& recipes();
  std::string recipe_text(const std::string& recipe) const;
  // The arguments that train it in whatever folder they are called in, as its subfolder run/.
  std::vector<std::string> training(const std::string& recipe) const;

  struct Finished {
    fs::path run;
    double seconds = 0;
  };
  const Finished& finished(const std::string& recipe) const;
  // The run of a job of two processes, where there is MPI.
  const Finished& finished_by_two(const std::string& recipe) const;
  const fs::path& half(const std::string& recipe) const;  // the run's folder
  // Of address space, in which the program can begin. Libraries that it needs fail, or wait for ever, in
  // less.
  std::int64_t least_memory() const;

 private:
  void make_source() const;
  void make_tables() const;
  void make_masked() const;
  void call(const std::vector<std::string>& words, const fs::path& folder) const;

  fs::path folder_;
  std::string program_;
  mutable std::recursive_mutex mutex_;
  mutable std::map<std::string, Finished> finished_;
  mutable std::map<std::string, fs::path> half_;
  mutable std::int64_t least_memory_ = 0;
};

// The command that starts two processes on few cores; empty where there is no mpirun. `before` comes before
// the program.
std::vector<std::string> two_ranks(const std::vector<std::string>& command);
std::vector<std::string> settings_of_ranks();

}  // namespace comera::attack
