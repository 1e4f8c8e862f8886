#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""own_openmp.py <libdnnl.so> <copy>: oneDNN's library, asking for fusec's OpenMP functions in place of GNU OpenMP's.

The copy is the original, byte for byte, but for these edits, none of which moves anything:
  - GOMP_x and omp_x, where they are asked for, become FOMP_x and fmp_x (runtime/threads/openmp.cpp), without a version;
  - libgomp.so.1 is no longer needed;
  - the library's own name becomes libfdnn.so.3, so that it never stands in for another oneDNN of the process.
Anything unexpected ends with an error: a function that runtime/threads/openmp.cpp lacks, a string that is shared."""
import struct
import sys
from pathlib import Path

FUNCTIONS = {
    'GOMP_barrier', 'GOMP_loop_end_nowait', 'GOMP_loop_static_next', 'GOMP_loop_static_start', 'GOMP_parallel_end',
    'GOMP_parallel_start', 'omp_get_max_threads', 'omp_get_num_threads', 'omp_get_thread_num', 'omp_in_parallel'}
OLD_NAME, NEW_NAME = b'libdnnl.so.3', b'libfdnn.so.3'
DT_NULL, DT_NEEDED, DT_SONAME, DT_VERNEEDNUM = 0, 1, 14, 0x6fffffff
SHN_UNDEF, VER_NDX_GLOBAL = 0, 1


class Library:
    def __init__(self, data):
        self.data = bytearray(data)
        if self.data[:6] != b'\x7fELF\x02\x01':
            sys.exit('own_openmp: not a 64-bit little-endian ELF file')
        self.sections = {}
        offset, = struct.unpack_from('<Q', self.data, 0x28)
        size, count, names = struct.unpack_from('<HHH', self.data, 0x3a)
        rows = [struct.unpack_from('<IIQQQQIIQQ', self.data, offset + i * size) for i in range(count)]
        for i, row in enumerate(rows):
            self.sections[self.text(rows[names][4] + row[0])] = (row[4], row[5], offset + i * size)
        self.strings = self.sections['.dynstr'][0]
        self.used = {}  # offset in .dynstr -> string

    def text(self, at):
        return self.data[at:self.data.index(0, at)].decode()

    def string(self, offset):
        return self.used.setdefault(offset, self.text(self.strings + offset))

    def rename(self, offset, new):
        old = self.used[offset]
        assert len(old) == len(new)
        for at in (offset + i for i in range(len(old)) if old[i] != new[i]):
            for other, text in self.used.items():  # the end of a string may be a string of its own
                if other != offset and other <= at < other + len(text):
                    sys.exit(f"own_openmp: '{old}' shares its bytes with '{text}'")
        self.data[self.strings + offset:self.strings + offset + len(new)] = new.encode()

    def symbols(self):
        """(file offset, file offset of the version, name offset, section index) of each dynamic symbol."""
        start, size, _ = self.sections['.dynsym']
        versions = self.sections['.gnu.version'][0]
        for i in range(size // 24):
            name, _, _, section = struct.unpack_from('<IBBH', self.data, start + 24 * i)
            yield start + 24 * i, versions + 2 * i, name, section

    def needed_versions(self):
        """(file offset, name of the library, offset to the next, indices of its versions) of each library."""
        at, _, _ = self.sections['.gnu.version_r']
        while True:
            _, count, name, first, step = struct.unpack_from('<HHIII', self.data, at)
            indices, entry = set(), at + first
            for _ in range(count):
                _, _, index, version, next_entry = struct.unpack_from('<IHHII', self.data, entry)
                self.string(version)
                indices.add(index)
                entry += next_entry
            yield at, self.string(name), step, indices
            if step == 0:
                return
            at += step

    def dynamic(self):
        at, size, _ = self.sections['.dynamic']
        return [(at + i, *struct.unpack_from('<QQ', self.data, at + i)) for i in range(0, size, 16)]

    def drop_needed_versions(self, library):
        """Takes the library's record out of the chain; the answer: the indices of its versions."""
        before = None
        for at, name, step, indices in self.needed_versions():
            if name == library:
                if before is None or step == 0:
                    sys.exit(f'own_openmp: the versions of {library} are the first or the last')
                struct.pack_into('<I', self.data, before[0] + 12, before[1] + step)
                _, _, row = self.sections['.gnu.version_r']
                struct.pack_into('<I', self.data, row + 44, struct.unpack_from('<I', self.data, row + 44)[0] - 1)
                return indices
            before = (at, step)
        sys.exit(f'own_openmp: {library} is not needed')

    def drop_needed(self, library):
        entries = [(tag, value) for _, tag, value in self.dynamic()
                   if not (tag == DT_NEEDED and self.string(value) == library)]
        entries = [(tag, value - 1 if tag == DT_VERNEEDNUM else value) for tag, value in entries]
        at = self.sections['.dynamic'][0]
        for tag, value in entries + [(DT_NULL, 0)]:
            struct.pack_into('<QQ', self.data, at, tag, value)
            at += 16


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    library = Library(Path(sys.argv[1]).read_bytes())
    for _, tag, value in library.dynamic():
        if tag in (DT_NEEDED, DT_SONAME):
            library.string(value)
    symbols = [(at, version, name, section, library.string(name)) for at, version, name, section in library.symbols()]
    list(library.needed_versions())

    gomp = library.drop_needed_versions('libgomp.so.1')
    found = set()
    for at, version, name, section, text in symbols:
        index = struct.unpack_from('<H', library.data, version)[0] & 0x7fff
        if section != SHN_UNDEF or index not in gomp:
            continue
        if text not in FUNCTIONS:
            sys.exit(f"own_openmp: {sys.argv[1]} asks for '{text}', which runtime/threads/openmp.cpp does not have")
        found.add(text)
        library.rename(name, 'F' + text[1:] if text.startswith('GOMP') else 'f' + text[1:])
        struct.pack_into('<H', library.data, version, VER_NDX_GLOBAL)
    if found != FUNCTIONS:
        sys.exit(f'own_openmp: {sys.argv[1]} does not ask for {", ".join(sorted(FUNCTIONS - found))}')
    library.drop_needed('libgomp.so.1')
    for _, tag, value in library.dynamic():
        if tag == DT_SONAME:
            assert library.string(value).encode() == OLD_NAME
            library.rename(value, NEW_NAME.decode())
    Path(sys.argv[2]).write_bytes(library.data)


main()
