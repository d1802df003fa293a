#pragma once

// The part of NCCL's interface that distributed/ uses, for machines without NCCL: names and values are those
// of NCCL 2 (tests/cuda/nccl_api_test.cpp compares them if the real header is available).

#include <cstddef>
#include <cstdint>

namespace comera::emulation {
struct StreamState;
}

extern "C" {

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t : int { ncclUint32 = 3, ncclFloat = 7, ncclDouble = 8 };
enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2 };
struct ncclUniqueId {
  char internal[128];
};

struct FakeNcclComm;
using ncclComm_t = FakeNcclComm*;
using ncclStream = comera::emulation::StreamState*;

#if !defined(COMERA_NCCL_TYPES_ONLY)
ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, ncclStream stream);
#endif
}
