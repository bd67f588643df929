# drover's own doors. `make` alone lists them.
#
# Everything works in a fresh clone with an empty HOME. After the modules are
# downloaded nothing here needs the network, but for the packages that Python
# programs ask for in `demo` and `test-real`.

GO       ?= go
PYTHON   ?= python3
FUZZTIME ?= 20s
# bench: which sections, how often
BENCH    ?= .
ROUNDS   ?= 15
BENCHFLAGS ?=
# scale: which maps, as AGENTSxITEMS; scale-real: how many agents
MAPS   ?= .
AGENTS ?= 200
# chaos: how long; and the rest, such as -seed 4711
CHAOSTIME  ?= 10m
CHAOSFLAGS ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# no templates through grpc's traces: they keep every method of every SDK alive
TAGS    := grpcnotrace
LDFLAGS := -s -w -X main.version=$(VERSION)
# the version is ours to stamp; git's own stamp refuses a clone owned by somebody else
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags $(TAGS)

SYSTEMS := linux/amd64 linux/arm64 darwin/arm64 darwin/amd64
MAXMB   := 40

# A machine may have no HOME at all, and the go command will not start without one.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/.home
endif
export PYTHON

# our Go files, without those in hidden folders
GOFILES = $$(find . -name '.?*' -prune -o -name '*.go' -print)

.DEFAULT_GOAL := help
.PHONY: help build programs demo train whole check toolchain fmt vet policy cross lean generated shell test test-long test-real test-kube kube-scale bench bench-kube bench-peers scale scale-real chaos chaos-ec2 chaos-net fuzz pictures clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## bin/drover, one static program
	$(BUILD) -ldflags '$(LDFLAGS)' -o bin/drover ./cmd/drover

# What agents run on machines of other systems: they lie beside bin/drover, where it looks for them.
programs: build ## bin/drover and, beside it, the programs for Linux machines of targets elsewhere
	@for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch $(BUILD) -ldflags '$(LDFLAGS)' -o bin/drover-linux-$$arch ./cmd/drover || exit 1; \
	done; ls -l bin/drover-linux-*

# A first use waits for the compiler. Without the SDKs of S3 and Google Cloud Storage
# the program is compiled in two thirds of the time; it trains, and meanwhile the
# whole program is compiled.
demo: ## train the example here; model, outputs and logs come back in out/
	$(BUILD),nobuckets -ldflags '$(LDFLAGS)' -o bin/.demo/drover ./cmd/drover
	@$(MAKE) --no-print-directory -j2 train whole

train:
	bin/.demo/drover run -o out examples/digits/train.py --epochs 3 </dev/null

whole:
	@echo "building bin/drover meanwhile, with the SDKs of S3 and Google Cloud Storage"
	@nice $(MAKE) --no-print-directory -s build && echo "bin/drover is built"

check: toolchain fmt vet policy cross lean generated shell ## everything that needs no program to run: style, rules, every system, size

# Asked outside of the module: in it an older go command ends with words of its own.
toolchain:
	@least=$$(sed -n 's/^go //p' go.mod); has=$$($(GO) env -C / GOVERSION) || exit 1; has=$${has#go}; has=$${has%% *}; \
	echo "go $$has, and go.mod asks for $$least"; \
	case $$has in [0-9]*) ;; *) exit 0;; esac; \
	[ "$$(printf '%s\n%s\n' "$$least" "$$has" | sort -V | head -1)" = "$$least" ] || \
		{ echo "this is Go $$has: before $$least os.Root has known escapes (THREATMODEL.md); install Go $$least or newer"; exit 1; }

fmt:
	@echo "gofmt"
	@bad=$$(gofmt -l $(GOFILES)) || exit 1; \
	if [ -n "$$bad" ]; then echo "not formatted; run gofmt -w on:"; echo "$$bad"; exit 1; fi

vet:
	$(GO) vet -tags $(TAGS) ./...
	$(GO) vet -tags $(TAGS),chaos ./cmd/drover ./program
	$(GO) vet -tags $(TAGS),nobuckets ./cmd/drover ./program
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet -tags $(TAGS) ./...
	$(GO) tool staticcheck -tags $(TAGS) ./...

# -count=1: what the rules read through the go command is not in the test cache's key
policy:
	$(GO) test -count=1 ./internal/house

cross:
	@mkdir -p bin/cross
	@for system in $(SYSTEMS); do \
		os=$${system%/*}; arch=$${system#*/}; out=bin/cross/drover-$$os-$$arch; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -ldflags '$(LDFLAGS)' -o $$out ./cmd/drover || exit 1; \
		bytes=$$(wc -c <$$out); \
		echo "$$out: $$((bytes / 1000000)) MB"; \
		if [ $$bytes -gt $$(($(MAXMB) * 1000000)) ]; then echo "$$out is above $(MAXMB) MB: see what it links with go list -deps"; exit 1; fi; \
	done

# One function that calls a method by a name found at run time makes the linker
# keep every exported method. The first test says that the dump came at all.
# -gcflags=-e changes nothing but the key in the go command's cache: without it,
# a later `make build` that finds all up to date prints this build's dump again.
lean:
	@echo "methods by name"
	@mkdir -p bin
	@$(BUILD) -gcflags=-e -ldflags=-dumpdep -o bin/.lean ./cmd/drover >bin/.deps 2>&1 || { tail -20 bin/.deps; exit 1; }
	@grep -q '^main\.main -> ' bin/.deps || { echo "the linker's list of dependencies is empty: -dumpdep has changed"; exit 1; }
	@! grep '<ReflectMethod> ->' bin/.deps | sed 's/ <ReflectMethod>.*//' | sort -u | grep . || \
		{ echo "these call methods by name, which keeps every method of every SDK alive"; exit 1; }
	@rm -f bin/.lean bin/.deps

# Generates in a copy, so that a check changes nothing here.
generated:
	@echo "generated files"
	@if grep -q '^//go:generate ' /dev/null $(GOFILES); then \
		copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && \
		tar -c --exclude=./.git --exclude=./bin --exclude=./out --exclude=./.home . | tar -x -C "$$copy" && \
		(cd "$$copy" && $(GO) generate ./...) && \
		diff -r -q -x .git -x bin -x out -x .home . "$$copy" || { echo "not up to date; run: go generate ./..."; exit 1; }; \
	fi

shell:
	@if command -v shellcheck >/dev/null; then echo "shellcheck"; \
		shellcheck .ci/run $$(find . -name '.?*' -prune -o -name '*.sh' -print); fi

# every failure again at the end, whole, where it is looked for
RUNNER  := $(GO) tool gotestsum --hide-summary=skipped

# The packages whose tests the race detector would make much longer and finds nothing in: they
# play one process at a time, or start no goroutines, and the scripts are about whole programs, with
# goroutines that the suites of their packages meet. The longest come first. test-long has the scripts
# with it.
ALONE := ./cmd/drover ./internal/ledger ./internal/env/... ./internal/engine/gc ./internal/house ./internal/verify ./internal/price ./internal/jobfile ./job/... ./fault/... ./internal/cli/... \
	./internal/items/manifest ./internal/record/metric ./internal/record/redact ./internal/engine/programs ./internal/agent/module ./internal/proc/wire ./store/dir
# A program with the race detector sleeps for a second before it exits, unless GORACE says less: the
# suites of drivers start hundreds.
RACE := GORACE=atexit_sleep_ms=50
# -vet=off: make check vets. Each commit plays worlds that no other has played, plants one third of the mutants
# (internal/ledger/commitseed), and has the race detector with one half of the other packages.
COMMIT := $(shell git rev-parse --short=8 HEAD 2>/dev/null || echo 0)
FRESH := $(shell printf '%d' 0x$(COMMIT))
OTHERS = $(GO) list ./... | grep -vxF "$$($(GO) list $(ALONE))"
HALF := $(shell echo $$((0x$(COMMIT) % 2)))

test: ## every test; needs python3 and no network
	@$(PYTHON) -c 'import venv, ensurepip, pip' || { echo "the tests run real Python programs: install python3 with venv and pip, or say PYTHON=..."; exit 1; }
	@mkdir -p bin
	DROVER_TEST_COMMIT=$(COMMIT) $(RUNNER) --format pkgname --jsonfile bin/.plain -- -vet=off -p 3 -timeout 25m $(ALONE) $$($(OTHERS) | awk 'NR % 2 != $(HALF)')
	$(RACE) $(RUNNER) --format pkgname --jsonfile bin/.race -- -race -vet=off -p 3 -timeout 25m $$($(OTHERS) | awk 'NR % 2 == $(HALF)')

test-race: ## all packages with the race detector that make test has with it by turns
	$(RACE) $(RUNNER) --format pkgname -- -race -p 3 -timeout 25m $$($(OTHERS))

test-long: ## many more worlds of the simulations, rare mutants, power cuts: an hour and a half
	$(RUNNER) --format pkgname -- -timeout 30m -run 'Simulation$$' ./internal/ledger ./internal/engine/gc
	$(RUNNER) --format pkgname -- -timeout 30m -run '^TestSimulation$$' ./internal/ledger -from $(FRESH) -seeds 200000
	$(RUNNER) --format pkgname -- -timeout 60m -run '^TestMapSimulation$$' ./internal/ledger -mapfrom $(FRESH) -mapseeds 200000
	$(RUNNER) --format pkgname -- -timeout 120m -run 'Mutants$$' ./internal/ledger -rare
	$(RUNNER) --format pkgname -- -timeout 30m -run 'Mutants$$' ./internal/engine/gc
	$(RUNNER) --format pkgname -- -race -timeout 60m ./cmd/drover ./internal/engine/gc ./internal/env
	$(RUNNER) --format standard-verbose -- -timeout 15m -run '^TestPowerCut.*(Shown|Map)$$' ./store/dir -images 40000

# A skip is a failure here: it would be a real part that is missing. The tests on Kubernetes run beside
# the others, which wait for servers most of the time, and tell their outcome when both are done.
test-real: export DROVER_TEST_REAL := 1
test-real: ## the TestReal... tests, against real servers, registries and a real Kubernetes; fails when one is missing
	@mkdir -p bin; rm -f bin/.kube bin/.real
	@packages=$$(grep -l '^func TestReal' /dev/null $$(find . -name '.?*' -prune -o -name '*_test.go' -print) | sed 's|/[^/]*$$||' | sort -u); \
	if [ -z "$$packages" ]; then echo "there is no test whose name begins with TestReal"; exit 1; fi; \
	DOCKER_HOST=$$(CACHE=$(CURDIR)/bin/images bash driver/docker/testdata/dockerd.sh /tmp/drover-dockerd $$$$) || exit 1; export DOCKER_HOST; \
	$(MAKE) --no-print-directory test-kube >bin/.kube.log 2>&1 & kube=$$!; \
	echo "make test-kube, beside:"; echo "$(RUNNER) -- -count=1 -timeout 50m -run ^TestReal" $$packages; \
	$(RUNNER) --format testname --jsonfile bin/.real -- -count=1 -timeout 50m -run '^TestReal' $$packages; status=$$?; \
	wait $$kube || { status=1; echo "make test-kube has failed:"; }; cat bin/.kube.log; \
	if grep '"Action":"skip".*"Test":' bin/.real; then echo "skipped, and here a skip is a failure"; status=1; fi; \
	$(RUNNER) --format dots --raw-command -- cat bin/.kube bin/.real || status=1; \
	exit $$status

# Builds Kubernetes from its modules into bin/kube the first time
test-kube: ## the tests on a real Kubernetes: needs root, openssl, busybox-static, containerd, runc, CNI plugins, conntrack, iptables
	@mkdir -p bin
	CGO_ENABLED=0 DROVER_TEST_KUBE=1 $(RUNNER) --format testname --jsonfile bin/.kube -- ./driver/kube -count=1 -parallel 4 -timeout 40m -run '^TestKubeCluster$$'
	@if grep '"Action":"skip".*"Test":"TestKubeCluster' bin/.kube; then echo "skipped, and here a skip is a failure"; exit 1; fi

# By hand: kwok takes minutes to build, and the test ten
kube-scale: ## 10,000 pods on 1,000 nodes that kwok plays, by a real API server; needs what test-kube does
	bash driver/kube/testdata/cluster/kube.sh build bin/kube
	GOBIN=$(CURDIR)/bin/kube CGO_ENABLED=0 $(GO) install -trimpath -ldflags '-s -w' sigs.k8s.io/kwok/cmd/kwok@v0.8.0
	DROVER_TEST_KWOK=$(CURDIR)/bin/kube/kwok $(GO) test ./driver/kube -count=1 -v -timeout 40m -run '^TestKubeScale$$'

bench: build ## time whole commands beside their peers; BENCH=regexp ROUNDS=n BENCHFLAGS='-items 200'
	$(GO) run ./bench -drover bin/drover -python $(PYTHON) -run '$(BENCH)' -rounds $(ROUNDS) $(BENCHFLAGS)

bench-kube: build ## time drover beside bare Jobs on a real Kubernetes of this machine; needs what test-kube does
	bash driver/kube/testdata/cluster/bench.sh bin/drover

# 350 MB, and never made by a test: without them bench says what it did not measure
bench-peers: ## Ray, Dask and HyperQueue from the package index, for bench to measure beside
	$(PYTHON) -m venv bin/.peers
	bin/.peers/bin/pip install -q -r bench/peers/requirements.txt

# An hour and a half, and 13 GB, for all of it; lines of maps that are left out stay as they are
scale: ## count what large maps ask of a store, for docs/scale.md; MAPS='^1000x' for some of them
	GOGC=300 GOMEMLIMIT=13GiB $(GO) test ./internal/ledger -count=1 -timeout 6h -run '^TestScale$$' -scale $(CURDIR)/internal/price/testdata/scale.json -scalemaps '$(MAPS)'
	$(GO) test ./internal/price -count=1 -update

scale-real: build ## AGENTS real agents (200) on this machine, over a folder and a real S3 server
	s3=$$(sh store/testdata/servers.sh versitygw) && \
	$(GO) run ./bench -drover bin/drover -python $(PYTHON) -run '^map-agents$$' -agents $(AGENTS) -s3 "$$s3"

# the second program differs in one thing: its store can be made to misbehave
chaos: build ## kill, stop and starve real jobs at random for CHAOSTIME (10m), then verify all
	$(BUILD),chaos -ldflags '$(LDFLAGS)' -o bin/drover-chaos ./cmd/drover
	s3=$$(sh store/testdata/servers.sh versitygw) && \
	$(GO) run ./chaos -drover bin/drover -flaky bin/drover-chaos -python $(PYTHON) -s3 "$$s3" -for $(CHAOSTIME) $(CHAOSFLAGS)

chaos-ec2: ## maps on machines of EC2's fake that are taken, crash and are cut off, for CHAOSTIME (10m); needs root
	DROVER_TEST_REAL=1 $(GO) test ./cmd/drover -count=1 -v -timeout 0 -run '^TestRealMachinesOfEC2BearChaos$$' -args -ec2chaos $(CHAOSTIME) $(CHAOSFLAGS)

chaos-net: build ## maps over a real S3 server that fails, and without a net for two minutes
	s3=$$(sh store/testdata/servers.sh versitygw) && \
	$(GO) run ./chaos -drover bin/drover -python $(PYTHON) -s3 "$$s3" -drills
	DROVER_TEST_REAL=1 $(GO) test ./cmd/drover -count=1 -v -timeout 20m -run '^TestRealSlurmMapAcrossHosts$$' -args -full

fuzz: ## each fuzz target for FUZZTIME (20s)
	@grep -H '^func Fuzz' /dev/null $$(find . -name '.?*' -prune -o -name '*_test.go' -print) | \
	sed 's/^\(.*\)\/[^/]*:func \(Fuzz[A-Za-z0-9_]*\).*/\1 \2/' | sort -u | \
	while read -r folder target; do \
		echo "$(GO) test -run '^$$' -fuzz '^$$target\$$' -fuzztime $(FUZZTIME) $$folder"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$folder </dev/null || exit 1; \
	done

# Real sessions, so they are drawn when the words on the screen have changed, not by a check
pictures: build ## draw the README's two terminal sessions anew, as docs/pictures/*.svg
	@$(GO) build -o bin/pictures ./docs/pictures
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && \
	cp -r examples/digits examples/thumbnails "$$work" && export DROVER_STORE="$$work/store" PATH="$(CURDIR)/bin:/usr/bin:/bin" && \
	(cd "$$work/digits" && drover run -q train.py --epochs 1 >/dev/null) && \
	python3 -B "$$work/thumbnails/pictures.py" "$$work/thumbnails/photos" 300 && \
	$(CURDIR)/bin/pictures -o docs/pictures/run.svg -dir "$$work/digits" -title 'drover run: a script' \
		'drover run -o out train.py --epochs 3' && \
	$(CURDIR)/bin/pictures -o docs/pictures/map.svg -dir "$$work/thumbnails" -title 'drover map: 300 pictures, then 5 more' \
		"drover map --from 'photos/*.png' --out '{.stem}.png' -o small -- python3 thumb.py {} {out}" \
		'python3 -B pictures.py photos 305' \
		"drover map --from 'photos/*.png' --out '{.stem}.png' -o small -- python3 thumb.py {} {out}"

clean: ## take away what was built
	@[ ! -d .home ] || chmod -R u+w .home
	rm -rf bin out .home
