#pragma once

#include <string>

#include "tests/qa/attack/samples/run_folder.h"
#include "tests/qa/attack/samples/sample.h"
#include "tests/qa/attack/try.h"

namespace comera::attack {

// A training run that something is done to: it stands half-way (or has not begun), trains while its
// surroundings are bad, and must go on to the same bits when they are good again.
class Scene {
 public:
  // place: the folder in which the run is the subfolder run/.
  Scene(Try& own, const fs::path& place);

  // The run, stopped in the middle, is laid there; otherwise it begins anew.
  void stand_half_way();

  fs::path run() const { return place_ / "run"; }
  const std::string& recipe() const { return recipe_; }
  // Trains on with --resume auto.
  Call training() const;
  // Another command that reads the finished sample or makes something in the try's folder.
  Call reading();
  // One of both.
  Call any();

  // Trains under these conditions; afterwards no checkpoint may be lost or damaged.
  Ending train(const Call& call, const Allowed& allowed);
  // Trains on, with nothing in the way, to what an undisturbed run gives.
  void go_on(const Compared& compared = {});

 private:
  Try& own_;
  fs::path place_;
  std::string recipe_;
};

// fault_disks.cpp, fault_streams.cpp, fault_folders.cpp, fault_limits.cpp, fault_outputs.cpp
void full_disk(Try& own);
void full_disk_of_checkpoints(Try& own);
void read_only_disk(Try& own);
void read_only_checkpoints(Try& own);
void limited_files(Try& own);
void unwritable_streams(Try& own);
void closed_descriptors(Try& own);
void something_in_the_way(Try& own);
void missing_part(Try& own);
void links_at_temporary_names(Try& own);
void links_laid_meanwhile(Try& own);
void vanishing(Try& own);
void few_descriptors(Try& own);
void little_memory(Try& own);
void strange_environment(Try& own);
void output_beyond_link(Try& own);
void odd_input(Try& own);
void long_latest(Try& own);

}  // namespace comera::attack
