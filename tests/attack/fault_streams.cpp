// stdout and stderr that cannot be written, and descriptors that are not there.
#include <csignal>

#include "tests/attack/scene.h"

namespace comera::attack {

namespace {

// Training continues, saves, and only then may end like other programs whose reader has gone.
void train(Scene& scene, Try& own, const Call& call) {
  const Ending ending = run(call);
  const bool by_pipe = ending.signal == SIGPIPE && call.out == Stream::broken;
  if (!by_pipe)
    own.check(call, ending, {.unheard = call.err != Stream::kept});
  else if (newest_step(scene.run()) != newest_step(own.sample().finished(scene.recipe()).run))
    own.fail("a reader that went away ended the run before its end");
  if (const std::string damage = damage_in(scene.run()); !damage.empty()) own.fail(damage);
  scene.go_on();
}

void work(Scene& scene, Try& own, const Call& call, bool trains) {
  own.note(std::string("stdin ") + (call.in_closed ? "closed" : "empty") + ", stdout " +
           std::to_string(static_cast<int>(call.out)) + ", stderr " +
           std::to_string(static_cast<int>(call.err)) +
           " (0 read, 1 full, 2 closed, 3 a pipe that nobody reads)");
  if (trains) return train(scene, own, call);
  const Ending ending = run(call);
  const bool by_pipe = ending.signal == SIGPIPE && call.out == Stream::broken;
  if (!by_pipe) own.check(call, ending, {.unheard = call.err != Stream::kept});
}

}  // namespace

void unwritable_streams(Try& own) {
  constexpr Stream streams[] = {Stream::kept, Stream::full, Stream::broken};
  Scene scene(own, own.folder());
  const bool trains = !own.chance.one_in(3);
  Call call = trains ? scene.training() : scene.reading();
  if (trains && own.chance.one_in(2)) scene.stand_half_way();
  call.out = own.chance.pick(streams);
  call.err = own.chance.pick(streams);
  if (call.out == Stream::kept && call.err == Stream::kept) call.err = Stream::full;
  work(scene, own, call, trains);
}

void closed_descriptors(Try& own) {
  Scene scene(own, own.folder());
  const bool trains = !own.chance.one_in(3);
  Call call = trains ? scene.training() : scene.reading();
  if (trains && own.chance.one_in(2)) scene.stand_half_way();
  const std::size_t which = 1 + own.chance.below(7);
  call.in_closed = (which & 1) != 0;
  if ((which & 2) != 0) call.out = Stream::closed;
  if ((which & 4) != 0) call.err = Stream::closed;
  work(scene, own, call, trains);
}

}  // namespace comera::attack
