# Copyright (c) the subbyte authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds SentencePiece, the tokenizer library, with its trainer.
#
#   SentencePiece_FOUND
#   SentencePiece::SentencePiece   imported target: libsentencepiece_train and libsentencepiece
#
# Debian and Ubuntu: libsentencepiece-dev. Elsewhere name the prefix with -DSentencePiece_ROOT=<folder>.
include(FindPackageHandleStandardArgs)

find_path(SentencePiece_INCLUDE_DIR NAMES sentencepiece_trainer.h)
find_library(SentencePiece_LIBRARY NAMES sentencepiece)
find_library(SentencePiece_TRAIN_LIBRARY NAMES sentencepiece_train)
mark_as_advanced(SentencePiece_INCLUDE_DIR SentencePiece_LIBRARY SentencePiece_TRAIN_LIBRARY)

find_package_handle_standard_args(SentencePiece
  REQUIRED_VARS SentencePiece_LIBRARY SentencePiece_TRAIN_LIBRARY SentencePiece_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libsentencepiece-dev, or set SentencePiece_ROOT to the prefix of your own")

if(SentencePiece_FOUND AND NOT TARGET SentencePiece::SentencePiece)
  add_library(SentencePiece::SentencePiece INTERFACE IMPORTED)
  set_target_properties(SentencePiece::SentencePiece PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${SentencePiece_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${SentencePiece_TRAIN_LIBRARY};${SentencePiece_LIBRARY}")
endif()
