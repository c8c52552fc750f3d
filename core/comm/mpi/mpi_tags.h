// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which tag means what among the messages of this project.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_TAGS_H_
#define ZEROTH_CORE_COMM_MPI_MPI_TAGS_H_

namespace zeroth::mpi {

// Where rank 0 listens (mpi_address.h).
inline constexpr int kAddressTag = 0;
// Group g of a world has kFirstGroupTag + g (mpi_channel.h).
inline constexpr int kFirstGroupTag = 1;

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_TAGS_H_
