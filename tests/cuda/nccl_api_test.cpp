// The values of NCCL's interface in kernels/emulation/nccl_api.h, compared with the real header: this file
// compiles only if they are the same.
#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>
#include <cstdint>

#define COMERA_NCCL_TYPES_ONLY
namespace written_down {
#include "kernels/emulation/nccl_api.h"
}

#define COMERA_SAME(name) static_assert(static_cast<int>(written_down::name) == static_cast<int>(::name))
COMERA_SAME(ncclSuccess);
COMERA_SAME(ncclUnhandledCudaError);
COMERA_SAME(ncclSystemError);
COMERA_SAME(ncclInternalError);
COMERA_SAME(ncclInvalidArgument);
COMERA_SAME(ncclInvalidUsage);
COMERA_SAME(ncclRemoteError);
COMERA_SAME(ncclInProgress);
COMERA_SAME(ncclUint32);
COMERA_SAME(ncclFloat);
COMERA_SAME(ncclDouble);
COMERA_SAME(ncclSum);
COMERA_SAME(ncclMax);
static_assert(sizeof(written_down::ncclUniqueId) == sizeof(::ncclUniqueId));
#endif
