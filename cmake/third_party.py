#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells what of others is in fusec, from cmake/deps/third_party.txt.

usage: third_party.py notices FILE   their licences, as their packages have them; without a package, the licence's name alone
       third_party.py sbom FILE      SPDX 2.3 as JSON, validated; wants the packages of cmake/deps/sbom_pinned.txt (`./dev sbom`)
       third_party.py check BUILD    every library of debian.txt and pinned.txt, and every library that BUILD/bin and BUILD/lib
                                     need, has its row and its licence; print each fault, exit 1 if there is one
"""
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPS = ROOT / "cmake" / "deps"
USES = {"static", "headers", "dynamic", "shipped", "tests"}
SYSTEM = {"libc", "libm", "libdl", "libpthread", "librt", "ld-linux-x86-64"}  # the C library


def lines(name):
    return [line.strip() for line in (DEPS / name).read_text().splitlines() if line.strip() and not line.startswith("#")]


@dataclass
class Part:
    name: str
    licence: str
    use: str
    kind: str  # debian, pinned, toolkit
    package: str
    version: str = ""  # empty: not installed here
    sha256: str = ""
    libraries: list = field(default_factory=list)
    texts: list = field(default_factory=list)  # files of its licence


def debian_version(package):
    try:
        shown = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}\n", package], capture_output=True, text=True)
    except FileNotFoundError:  # no Debian
        return ""
    words = shown.stdout.splitlines()[0].split() if shown.stdout else []
    return words[1] if words[:1] == ["installed"] else ""


def pins(name="pinned.txt"):
    return {m[1]: (m[2], m[3]) for m in (re.match(r"([^=]+)==(\S+) --hash=sha256:(\w+)", line) for line in lines(name))}


def toolkits():
    """The CUDA toolkits in the order of cmake/deps/cuda.cmake."""
    return [ROOT / "build" / "deps" / "cuda", *(Path(home) for home in [os.environ.get("CUDA_HOME")] if home), Path("/usr/local/cuda")]


def find_in_toolkit(file):
    """The first toolkit that has the library, and its version: (folder, version), or None."""
    for folder in toolkits():
        if any((folder / lib / file).exists() for lib in ("lib64", "lib", "targets/x86_64-linux/lib")):
            header = folder / "include" / "cuda.h"
            number = re.search(r"#define CUDA_VERSION (\d+)", header.read_text(errors="replace")) if header.is_file() else None
            return folder, f"{int(number[1]) // 1000}.{int(number[1]) % 1000 // 10}" if number else "unknown"
    return None


def part_of(line, pinned):
    columns = [column.strip() for column in line.split("|")]
    assert len(columns) == 5 and columns[2] in USES, f"cmake/deps/third_party.txt: {line}"
    kind, package, *files = columns[3].split()
    part = Part(*columns[:3], kind, package, libraries=columns[4].split())
    if kind == "debian":
        part.version = debian_version(package)
        part.texts = [path for path in [Path("/usr/share/doc") / package / "copyright"] if path.is_file()]
    elif kind == "toolkit":
        if found := find_in_toolkit(package):
            part.version = found[1]
            part.texts = [path for path in [found[0] / "EULA.txt"] if path.is_file()]
    else:
        part.version, part.sha256 = pinned.get(package, ("", ""))
        folder = ROOT / "build" / "deps" / f"{package}-{part.version}"
        part.texts = [path for file in files for path in sorted(folder.glob(file))]
    return part


def parts():
    pinned = pins()
    return [part_of(line, pinned) for line in lines("third_party.txt")]


def version_of_fusec():
    return re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())[1]


def write_notices(to):
    how = {"static": "linked in", "headers": "compiled in", "dynamic": "linked to, not shipped", "shipped": "shipped beside fusec's own libraries"}
    out = ["fusec is under the Apache License 2.0, see LICENSE. Of others it holds or uses what follows. NVIDIA's driver, CUDA and",
           "cuDNN are neither linked nor shipped, but for the PTX compiler where it is listed below: they are opened at run time",
           "where they are installed. libfusec-ptx-compiler.so may be removed; fusec then assembles by nvJitLink.", ""]
    for part in parts():
        elsewhere = part.kind == "debian" and not shutil.which("dpkg-query")  # no Debian: what is there is not known
        if part.use == "tests" or not (part.version or elsewhere):
            continue
        out += ["=" * 100, f"{part.name} {part.version}".strip(), f"licence: {part.licence}; {how[part.use]}", "=" * 100, ""]
        for path in part.texts:
            out += [path.read_text(errors="replace").rstrip(), ""]
        if not part.texts:
            out += ["The machine that built this had no copy of its licence.", ""]
    Path(to).write_text("\n".join(out))


def needed_libraries(build):
    for folder in ("bin", "lib", "triton/fusec"):
        for path in sorted((build / folder).glob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.endswith(".a"):
                shown = subprocess.run(["readelf", "-W", "-d", path], capture_output=True, text=True).stdout
                for soname in re.findall(r"\(NEEDED\).*\[(.*)\]", shown):
                    yield path, re.sub(r"\.so\b.*", "", soname)


def check(build):
    rows, bad = parts(), []
    packages = {part.package for part in rows}
    known = {library for part in rows for library in part.libraries}
    for package in lines("debian.txt"):
        if package.endswith("-dev") and package not in packages:
            bad.append(f"{package} of debian.txt has no row in cmake/deps/third_party.txt")
    for package in pins():
        if package not in packages:
            bad.append(f"{package} of pinned.txt has no row in cmake/deps/third_party.txt")
    for part in rows:
        if part.version and not part.texts:
            bad.append(f"{part.name}: no licence was found of {part.kind} {part.package} {part.version}")
    seen = 0
    for path, library in needed_libraries(Path(build)):
        seen += 1
        if library not in known | SYSTEM and not library.startswith("libfusec"):
            bad.append(f"{path} needs {library}, which no row of cmake/deps/third_party.txt names")
    if seen == 0:
        bad.append(f"no program was found in {build}")
    print("\n".join(bad) if bad else f"{len(rows)} rows; all that is used has one")
    return not bad


def commit_and_time():
    from datetime import datetime, timezone
    shown = subprocess.run(["git", "log", "-1", "--format=%H %ct"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    commit, seconds = shown if len(shown) == 2 else ("unknown", "0")
    return commit, datetime.fromtimestamp(int(seconds), timezone.utc).replace(tzinfo=None)


def write_sbom(to):
    from license_expression import get_spdx_licensing
    from spdx_tools.spdx.model import (Actor, ActorType, Checksum, ChecksumAlgorithm, CreationInfo, Document, ExternalPackageRef,
                                       ExternalPackageRefCategory, ExtractedLicensingInfo, Package, Relationship, RelationshipType, SpdxNoAssertion)
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
    from spdx_tools.spdx.writer.write_anything import write_file

    relations = {"static": RelationshipType.STATIC_LINK, "dynamic": RelationshipType.DYNAMIC_LINK, "shipped": RelationshipType.CONTAINS,
                 "headers": RelationshipType.DEPENDS_ON, "tests": RelationshipType.TEST_DEPENDENCY_OF}
    licences = get_spdx_licensing()
    commit, time = commit_and_time()
    version = version_of_fusec()

    def package(spdx_id, name, version, licence, **more):
        assert licence.startswith("LicenseRef-") or not licences.validate(licence).errors, (name, licence)
        licence = licences.parse(licence)
        return Package(spdx_id=spdx_id, name=name, version=version, download_location=SpdxNoAssertion(), files_analyzed=False,
                       license_concluded=licence, license_declared=licence, copyright_text=SpdxNoAssertion(), **more)

    packages = [package("SPDXRef-fusec", "fusec", version, "Apache-2.0")]
    others = []  # licences that SPDX does not list
    relationships = [Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, "SPDXRef-fusec")]
    for part in parts():
        if not part.version:
            continue
        spdx_id = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", part.name)
        url = f"pkg:deb/debian/{part.package.replace('+', '%2B')}@{part.version.replace('+', '%2B')}" if part.kind == "debian" \
            else f"pkg:pypi/{part.package}@{part.version}" if part.kind == "pinned" else f"pkg:generic/cuda-toolkit@{part.version}"
        if part.licence.startswith("LicenseRef-"):
            text = "\n".join(path.read_text(errors="replace") for path in part.texts) or "The machine that built this had no copy."
            others.append(ExtractedLicensingInfo(part.licence, text, part.licence.removeprefix("LicenseRef-")))
        packages.append(package(spdx_id, part.name, part.version, part.licence,
                                checksums=[Checksum(ChecksumAlgorithm.SHA256, part.sha256)] if part.sha256 else [],
                                external_references=[ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", url)]))
        relation = relations[part.use]
        ends = ("SPDXRef-fusec", relation, spdx_id) if part.use != "tests" else (spdx_id, relation, "SPDXRef-fusec")
        relationships.append(Relationship(*ends))
    info = CreationInfo("SPDX-2.3", "SPDXRef-DOCUMENT", f"fusec-{version}", f"urn:fusec:sbom:{version}:{commit}",
                        [Actor(ActorType.TOOL, "fusec-third_party.py")], time)
    document = Document(info, packages, relationships=relationships, extracted_licensing_info=others)
    faults = validate_full_spdx_document(document, "SPDX-2.3")
    for fault in faults:
        print(f"{to}: {fault.validation_message}", file=sys.stderr)
    if faults:
        return False
    write_file(document, str(to), validate=False)

    from spdx_tools.spdx.parser.parse_anything import parse_file
    again = parse_file(str(to))
    if again != document:
        print(f"{to}: reads back as another document", file=sys.stderr)
        return False
    print(f"{to}: SPDX-2.3, {len(packages)} packages, valid")
    return True


if __name__ == "__main__":
    actions = {"notices": lambda to: write_notices(to) is None, "sbom": write_sbom, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    sys.exit(0 if actions[sys.argv[1]](sys.argv[2]) else 1)
