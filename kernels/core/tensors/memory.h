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

// Thrown where memory cannot be had.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// Work that a device recorded, to be done again and again.
class Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual void launch(const Stream& stream) = 0;
};

// Sends blocks of host memory, one after another, to the same place of a device, while the device still works
// with the block before.
class Feed {
 public:
  Feed() = default;
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  // Host memory for the next block, as large as the place. What is in it is not defined.
  virtual void* next() = 0;
  // Puts that block on its way. What is put on the allocator's stream after this call finds it in its place.
  virtual void send() = 0;
};

// Allocates on one device and counts by kind. Memory is aligned to 64 bytes and zeroed.
class Allocator {
 public:
  explicit Allocator(Device device) : device_(device) {}
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Throws OutOfMemory when there is none left, with what is in use, and Error while allocation is forbidden.
  void* allocate(std::size_t bytes, MemoryKind kind);
  void deallocate(void* data, std::size_t bytes, MemoryKind kind) noexcept;

  // Copies between host memory and this device's, on the stream; the host's memory must stay until it is
  // done. On the host itself they are done on return.
  virtual void upload(void* device_memory, const void* host, std::size_t bytes, const Stream& stream) = 0;
  virtual void download(void* host, const void* device_memory, std::size_t bytes, const Stream& stream) = 0;
  // Waits until everything put on the stream is done. Never within a step.
  virtual void synchronize(const Stream& stream) = 0;
  // The stream that a step's work is put on.
  virtual Stream stream() const { return {device_}; }
  // To a place in this device's memory, which must outlive it.
  virtual std::unique_ptr<Feed> feed(void* place, std::size_t bytes);
  // What body() puts on the stream, which is not done now. Null on devices whose work is done at once.
  virtual std::unique_ptr<Recording> record(const Stream& stream, const std::function<void()>& body);

  // Moments on the stream. Null on the host, whose own clock will do.
  virtual std::unique_ptr<ProfileClock> profile_clock(const Stream& stream);

  // Bytes that could still be allocated; 0 where that is not known.
  virtual std::size_t available() const { return 0; }

  Device device() const { return device_; }
  MemoryUse use(MemoryKind kind) const;
  void reset_peaks();

  // A step allocates nothing: Graph forbids it while it replays.
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

// The allocator of the host's memory.
Allocator& host_allocator();

// A tensor's numbers where the host can get at them: the tensor itself on the host, a copy of a device's. Not
// for use within a step.
class HostCopy {
 public:
  HostCopy(Allocator& allocator, const Tensor& tensor);
  // Of the tensor's shape and type. read() brings what the device has, write() takes back what was changed.
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
