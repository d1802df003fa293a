#!/usr/bin/env bash
# Stands for Debian's packages in tests of the scripts that make corpora of them. A package is a folder of
# $scratch/packages, and $scratch/calls has the name of each that was fetched.
set -euo pipefail
: "${scratch:?}"

mkdir -p "$scratch"/{bin,packages}
cat > "$scratch/bin/apt-get" << PROGRAM
#!/usr/bin/env bash
echo "\${@: -1}" >> "$scratch/calls"
tar -C "$scratch/packages/\${@: -1}" -cf "\${@: -1}.deb" .
PROGRAM
cat > "$scratch/bin/dpkg-deb" << 'PROGRAM'
#!/usr/bin/env bash
if [[ $1 == -f ]]; then echo 1.0-1; else tar -xf "$2" -C "$3"; fi
PROGRAM
chmod +x "$scratch/bin/"*
