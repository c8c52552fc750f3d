// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What calls of the library are made of.

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_CALLS_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_CALLS_H_

#include <nccl.h>

#include "absl/status/status.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"

namespace zeroth::nccl {

inline ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
  }
  ZEROTH_CHECK(false);
}

inline char* Bytes(const BufferView& view) { return static_cast<char*>(view.data); }

// The first error of several calls that belong together, with every group ended that was begun.
class Group {
 public:
  Group() : result_(ncclGroupStart()) {}
  void Add(ncclResult_t result) {
    if (result_ == ncclSuccess && result != ncclInProgress) result_ = result;
  }
  ncclResult_t End() {
    const ncclResult_t ended = ncclGroupEnd();
    return result_ == ncclSuccess ? ended : result_;
  }

 private:
  ncclResult_t result_;
};

// send(peer, communicator) and receive(peer, communicator) for all ranks but `except`, as one call.
template <typename Send, typename Receive>
absl::Status Exchange(Handle& handle, int size, int except, const Send& send,
                      const Receive& receive) {
  return handle.Call("all-to-all", [&](ncclComm_t communicator) {
    Group group;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == except) continue;
      group.Add(send(peer, communicator));
      group.Add(receive(peer, communicator));
    }
    return group.End();
  });
}

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_CALLS_H_
