#pragma once

namespace comera {

// While an object lives, SIGINT and SIGTERM ask the work to stop at the next good moment instead of ending
// the process: the training run then saves and stops. A second signal ends the process at once. At most one
// object at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // restores what was there before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const { return number() != 0; }
  // SIGINT, SIGTERM, or 0.
  int number() const;
};

}  // namespace comera
