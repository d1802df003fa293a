#pragma once

// Formulas that host and device share are marked COMERA_HOST_DEVICE.
#if defined(__CUDACC__)
#define COMERA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define COMERA_HOST_DEVICE inline
#endif
