// Surroundings that fail: disks, folders, streams, descriptors, memory.
#include "tests/qa/attack/kinds.h"
#include "tests/qa/attack/samples/scene.h"

namespace comera::attack {

void attempt_fault(Try& own) {
  constexpr void (*faults[])(Try&) = {full_disk,
                                      full_disk_of_checkpoints,
                                      read_only_disk,
                                      read_only_checkpoints,
                                      limited_files,
                                      unwritable_streams,
                                      closed_descriptors,
                                      something_in_the_way,
                                      something_in_the_way,
                                      something_in_the_way,
                                      missing_part,
                                      links_at_temporary_names,
                                      links_laid_meanwhile,
                                      vanishing,
                                      few_descriptors,
                                      little_memory,
                                      strange_environment,
                                      output_beyond_link,
                                      output_beyond_link,
                                      odd_input,
                                      odd_input,
                                      long_latest};
  faults[own.number() % std::size(faults)](own);
}

}  // namespace comera::attack
