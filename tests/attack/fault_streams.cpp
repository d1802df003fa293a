// stdout and stderr that cannot be written, and descriptors that are not there.
#include <csignal>

#include "tests/attack/scene.h"

namespace comera::attack {

namespace {

// What goes on must give the same bits; whatever else may fail by itself.
void work(Scene& scene, Try& own, Call call, bool trains) {
  own.note(std::string("stdin ") + (call.in_closed ? "closed" : "empty") + ", stdout " +
           std::to_string(static_cast<int>(call.out)) + ", stderr " +
           std::to_string(static_cast<int>(call.err)) +
           " (0 read, 1 full, 2 closed, 3 a pipe that nobody reads)");
  const Allowed allowed{.unheard = call.err != Stream::kept};
  if (trains) {
    scene.train(call, allowed);
    return scene.go_on();
  }
  const Ending ending = run(call);
  // As other programs whose reader has gone.
  const bool by_pipe = ending.signal == SIGPIPE && (call.out == Stream::broken || call.err == Stream::broken);
  if (!by_pipe) own.check(call, ending, allowed);
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
