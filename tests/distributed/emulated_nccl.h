#pragma once

#include <memory>

#include "distributed/communicator.h"
#include "kernels/core/tensors/memory.h"
#include "kernels/emulation/nccl_fake.h"

namespace comera {

// start_nccl() of nccl_communicator.cpp, compiled for the emulated backend. It loads the fake NCCL once
// test::fake_nccl() has been called.
std::unique_ptr<Communicator> start_emulated_nccl(Communicator& host, Device device,
                                                  const Communicator::Patience& patience = {});

namespace test {

// The fake library (kernels/emulation/nccl_fake.cpp), whose work goes to the emulated streams.
emulation::FakeNccl& fake_nccl();

// One of its functions.
void* fake_nccl_symbol(const char* name);

}  // namespace test
}  // namespace comera
