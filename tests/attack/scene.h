#pragma once

#include <string>

#include "tests/attack/run_folder.h"
#include "tests/attack/sample.h"
#include "tests/attack/try.h"

namespace comera::attack {

// A disturbed training run: it is half done (or has not begun), trains under bad conditions, and must then
// continue to the same bits under good ones.
class Scene {
 public:
  // place: the folder with the run in the subfolder run/.
  Scene(Try& own, const fs::path& place);

  // Places the run there, stopped in the middle; otherwise it starts from the beginning.
  void stand_half_way();

  fs::path run() const { return place_ / "run"; }
  const std::string& recipe() const { return recipe_; }
  // Continues training with --resume auto.
  Call training() const;
  // Another command that reads the finished sample or makes something in the try's folder.
  Call reading();
  // One of both.
  Call any();

  // Trains under these conditions; afterwards no checkpoint may be lost or damaged.
  Ending train(const Call& call, const Allowed& allowed);
  // Continues training undisturbed, to the result of an undisturbed run.
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
