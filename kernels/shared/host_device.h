#pragma once

// Marks functions shared by host and device.
#if defined(__CUDACC__)
#define COMERA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define COMERA_HOST_DEVICE inline
#endif
