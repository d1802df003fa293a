#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/core/check.h"
#include "kernels/core/device.h"
#include "kernels/core/profile.h"
#include "kernels/core/tensors/tensor.h"

namespace comera {

enum class MemoryKind : std::uint8_t { parameters, gradients, optimizer, activations, workspace };
inline constexpr int memory_kinds = 5;
const char* name_of(MemoryKind kind);

struct MemoryUse {
  std::size_t current = 0;
  std::size_t peak = 0;
};

// Thrown if memory is exhausted.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// Recorded work of a device, to be launched repeatedly.
class Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual void launch(const Stream& stream) = 0;
};

// Uploads blocks of host memory, one after another, to the same address of a device, while the device still
// works with the previous block.
class Feed {
 public:
  Feed() = default;
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  // Host memory for the next block, of the same size. Its content is undefined.
  virtual void* next() = 0;
  // Starts the upload of that block. Work put on the allocator's stream after this call sees it at its
  // address.
  virtual void send() = 0;
};

// Allocates on one device and counts by kind. Memory is aligned to 64 bytes and zeroed.
class Allocator {
 public:
  explicit Allocator(Device device) : device_(device) {}
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Throws OutOfMemory, with the memory in use, if there is none left, and Error while allocation is
  // forbidden.
  void* allocate(std::size_t bytes, MemoryKind kind);
  void deallocate(void* data, std::size_t bytes, MemoryKind kind) noexcept;

  // Copies between host memory and this device's, on the stream; the host memory must remain valid until the
  // copy is done. On the host, copies are done on return.
  virtual void upload(void* device_memory, const void* host, std::size_t bytes, const Stream& stream) = 0;
  virtual void download(void* host, const void* device_memory, std::size_t bytes, const Stream& stream) = 0;
  // Waits until all work on the stream is done. Never called within a step.
  virtual void synchronize(const Stream& stream) = 0;
  // The stream for a step's work.
  virtual Stream stream() const { return {device_}; }
  // For an address in this device's memory, which must outlive the feed.
  virtual std::unique_ptr<Feed> feed(void* place, std::size_t bytes);
  // Records the work that body() puts on the stream, without running it. Null on devices that run work at
  // once.
  virtual std::unique_ptr<Recording> record(const Stream& stream, const std::function<void()>& body);

  // Time stamps on the stream. Null on the host, which uses its own clock.
  virtual std::unique_ptr<ProfileClock> profile_clock(const Stream& stream);

  // Bytes that could still be allocated; 0 if unknown.
  virtual std::size_t available() const { return 0; }

  Device device() const { return device_; }
  MemoryUse use(MemoryKind kind) const;
  void reset_peaks();

  // A step allocates nothing: Graph forbids allocation during replay.
  void forbid(bool forbidden) { forbidden_ = forbidden; }

 protected:
  virtual void* do_allocate(std::size_t bytes) = 0;
  virtual void do_deallocate(void* data, std::size_t bytes) noexcept = 0;

 private:
  Device device_;
  std::array<std::atomic<std::size_t>, memory_kinds> current_{};
  std::array<std::atomic<std::size_t>, memory_kinds> peak_{};
  std::atomic<bool> forbidden_ = false;
};

// The allocator of host memory.
Allocator& host_allocator();

// Host access to a tensor's values: the tensor itself on the host, a copy of a device's. Not for use within a
// step.
class HostCopy {
 public:
  HostCopy(Allocator& allocator, const Tensor& tensor);
  // Has the tensor's shape and type. read() downloads from the device, write() uploads changes.
  const Tensor& tensor() const { return copy_; }
  HostCopy& read();
  void write();

 private:
  Allocator& allocator_;
  Tensor original_, copy_;
  std::vector<std::byte> memory_;
};

// Owns device memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Allocator& allocator, std::size_t bytes, MemoryKind kind);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Tensor tensor(Shape shape, DType dtype) const;

 private:
  void swap(Buffer& other) noexcept;

  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::workspace;
};

}  // namespace comera
