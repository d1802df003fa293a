// System limits: file sizes, descriptors, memory; and unusual environments.
#include <fmt/format.h>

#include "tests/attack/scene.h"

namespace comera::attack {

void limited_files(Try& own) {
  Scene scene(own, own.folder());
  if (own.chance.one_in(2)) scene.stand_half_way();
  Call call = scene.training();
  call.limits.file_bytes = own.chance.between(0, 450000);
  call.limits.file_signal = own.chance.one_in(2);
  own.note(fmt::format("files of at most {} bytes{}", call.limits.file_bytes,
                       call.limits.file_signal ? ", and SIGXFSZ" : ""));
  scene.train(call, {.names = {"File too large"}});
  scene.go_on();
}

void few_descriptors(Try& own) {
  Scene scene(own, own.folder());
  Call call = scene.any();
  call.limits.descriptors = own.chance.between(3, 16);
  own.note(fmt::format("{} descriptors", call.limits.descriptors));
  scene.train(call, {.names = {"Too many open files"}, .loader = true});
  scene.go_on();
}

void little_memory(Try& own) {
  Scene scene(own, own.folder());
  Call call = scene.any();
  const std::int64_t least = own.sample().least_memory();
  call.limits.memory = least + own.chance.between(0, 96 << 20);
  own.note(fmt::format("{:.1f} MiB of memory", static_cast<double>(call.limits.memory) / 1048576));
  scene.train(call, {.names = {"memory"}});
  scene.go_on();
}

void strange_environment(Try& own) {
  static const std::vector<std::string> settings = {"TMPDIR=/no/such/folder",
                                                    "TMPDIR=",
                                                    "HOME=",
                                                    "HOME=/no/such/folder",
                                                    "LC_ALL=no_SUCH.locale",
                                                    "LC_ALL=tr_TR",
                                                    "LC_NUMERIC=de_DE.UTF-8",
                                                    "PATH=",
                                                    "OMP_NUM_THREADS=many",
                                                    "OMP_NUM_THREADS=-1",
                                                    "GOMP_SPINCOUNT=never",
                                                    "OMP_WAIT_POLICY=whatever",
                                                    "COMERA_ISA=v9",
                                                    "COMERA_ISA=",
                                                    "MALLOC_ARENA_MAX=1",
                                                    "OMP_PROC_BIND=true",
                                                    "OMP_PLACES=nowhere",
                                                    "HDF5_USE_FILE_LOCKING=FALSE",
                                                    "HDF5_DISABLE_VERSION_CHECK=1",
                                                    "TZ=Nowhere/Land"};
  Scene scene(own, own.folder());
  if (own.chance.one_in(2)) scene.stand_half_way();
  Call call = scene.training();
  for (int i = 0; i < 2; ++i) call.environment.push_back(own.chance.pick(settings));
  own.note(call.environment[0] + " " + call.environment[1]);
  scene.train(call, {.names = {"COMERA_ISA", "TMPDIR"}});
  scene.go_on();
}

}  // namespace comera::attack
