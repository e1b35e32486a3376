# Haft. `make help` lists what can be made.

SHELL := bash
.DEFAULT_GOAL := help

GO       ?= go
BIN      := bin/haft
INIT     := sandbox/local/internal
TOOLS    := $(CURDIR)/bin/tools
# Twelve digits: how many git chooses depends on the clone, and the version is in the binary.
VERSION  := $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo dev)
# The binary needs no C library, so that it runs on every Linux as it is. Go would write into it what it knows of the
# repository, which is nothing in a worktree of git: the same commit would give other bytes.
BUILD    := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)"
# The race detector needs a C compiler, and more memory and threads than the limits of an ordinary user's
# sandboxes leave to their init, which is the test program itself. Without it the tests run without it, and say so.
# SQLite is C that was translated into Go: the race detector, and checkptr, would look at every access to its memory,
# for most of the time of all tests with a store. It is built without. The packages around it are not: they share
# generic code with ours, of which the linker keeps one copy.
RACE     := $(shell [ "$$(id -u)" = 0 ] && command -v gcc >/dev/null 2>&1 && echo -race '-gcflags=modernc.org/...=-d=checkptr=0' -gcflags=modernc.org/sqlite/lib=-race=false)
# Sandboxes in tests have the init that the binary has (make init), not the test program itself, which is 40 times as
# large and which the race detector starts slowly.
# go vet has looked at everything before, at more, and once instead of for every way to build.
TAGS     := -tags haft_init
# The compiler spends a third of its time on collecting garbage. It is told to collect less often, which takes memory
# for time; the programs that it makes and the tests are not told.
export GOFLAGS := $(shell $(GO) env GOFLAGS) '-toolexec=env GOGC=400'

# The runsc that make test-more installs.
export PATH := $(CURDIR)/.haft/gvisor:$(PATH)

# Without the tables for debuggers, linking a test program takes two thirds of the time.
TEST     := $(GO) test $(TAGS) -ldflags=-w -vet=off -timeout 60m
FUZZTIME ?= 60s
# How long make attack has one program attack its supervisor by everything at once; 2 s in make test.
ATTACKTIME ?= 60s
# What became of each case of the conformance suite in each mode; docs/attacks.md is made from it by
# HAFT_VERDICTS=$$PWD/.haft/verdicts go test . -run TestAttacks -update
VERDICTS := $(CURDIR)/.haft/verdicts
# The tests of package sandbox/local that the race detector does not disturb, and the modes of the conformance
# suite that make test runs: as root, reduced, and as an ordinary user.
LOCAL    := ^(TestRun|TestProvider|TestTemplate)
MODES    := ^TestConformance(_reduced|_as_an_ordinary_user)?$$
# The tests that run other people's programs or fetch packages from an index, in the packages that make test-more
# lists (TestTiers_run_every_test). What they need is installed by make setup-more.
REAL     := ^(TestSession_conformance_gvisor|TestPackages_|TestMCP_|TestLetta_|TestE2B_|TestClients_|TestOpenAPI_(is_what_the_server_does|passes_a_linter)|TestService_(brokers|mocks)_for_real_clients|TestEgress_)

# The packages whose own state is used by several goroutines at a time. make test runs them with the race detector,
# which takes three times the processor time, and make race all others.
RACED    := $(addprefix ./,client compat/e2b executor/upstream sandbox/cell sandbox/process server server/agentapi \
  $(addprefix internal/,auth backlog chain chains checkpoint connlimit conversation credential egress embedding \
  engine event eventstream filestore followup limit localsocket memory portproxy registry secret/keeper secret/vault \
  service session store store/redo store/sqlite toolrule webhook workspace))
# Two more, which need most of the program and its dependencies: compiling those for the race detector takes minutes.
# make test runs them without, make test-more with it.
WIDE     := ./server/mcpserver ./internal/telemetry
# The packages that have targets of their own, and all others, of which the command takes longest and begins first.
APART    := $(addprefix ./,sandbox/local sandbox/gvisor deploy internal/soak cmd/haft)
PLAIN     = ./cmd/haft $(filter-out $(APART) $(RACED),$(shell $(GO) list -f '{{.Dir}}' ./... | \
  sed -e "s|^$(CURDIR)/|./|" -e "s|^$(CURDIR)$$|.|"))

# The packages whose tests need no sandbox, no database server and no other program.
FAST     := $(addprefix ./,client compat/letta policy schema schema/bashschema schema/tsschema server \
  $(addprefix internal/,access audit auth authority backlog bounds chain chains checkpoint circuit credential egress \
  event flagvalue javascript jsontree limit mcpfile modelapi oauth registry requirement review secret secret/keeper \
  service shell store store/redo toolrule value webhook))

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: init
init: # build the init of sandboxes, which the binary and the tests have in them
	$(BUILD) -o $(INIT)/initimage/haft-init ./$(INIT)/haftinit

.PHONY: build
build: init ## build the binary at bin/haft
	$(BUILD) $(TAGS) -o $(BIN) ./cmd/haft

PREFIX    ?= /usr/local
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: install
install: build ## install the binary and its manual pages below PREFIX (/usr/local)
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/haft
	$(BIN) man $(DESTDIR)$(PREFIX)/share/man/man1

.PHONY: release
release: build ## pack archives, Debian packages, wheels and npm packages, with checksums, into dist
	rm -rf dist .haft/release && mkdir -p .haft/release
	$(BIN) man .haft/release/man
	@for p in $(PLATFORMS); do echo "building $$p"; out=.haft/release/$${p/\//-}; tags=; export GOOS=$${p%/*} GOARCH=$${p#*/}; \
	  if [ $$GOOS = linux ]; then tags="$(TAGS)"; $(BUILD) -o $(INIT)/initimage/haft-init ./$(INIT)/haftinit || exit 1; fi; \
	  $(BUILD) $$tags -o $$out ./cmd/haft || exit 1; done
	@$(MAKE) --no-print-directory init
	$(GO) run ./scripts/release --version $(VERSION) --time $$(git log -1 --format=%ct) --manuals .haft/release/man \
	  $(foreach p,$(PLATFORMS),$(p)=.haft/release/$(subst /,-,$(p)))
	@cat dist/SHA256SUMS

.PHONY: setup
setup: # install what a bare machine lacks to run tools
	@scripts/setup run

.PHONY: gvisor
gvisor: build ## build the gVisor that Haft was tested with, for --sandbox gvisor
	$(BIN) doctor --fix

.PHONY: setup-test
setup-test: # install what the tests need besides
	@scripts/setup test

.PHONY: setup-more
setup-more: setup-test # install what the second tier of the tests needs besides
	@scripts/setup more
	@scripts/setup crewai

.PHONY: demo
demo: setup build ## set up a fresh machine and run a tool in the sandbox
	@scripts/demo

.PHONY: static
static: init # what is checked without running the program
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "not gofmt'd:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(TAGS) ./...
	$(GO) mod tidy -diff

.PHONY: other-systems
other-systems: # the program builds where there is no sandbox
	GOOS=darwin $(GO) build ./...

.PHONY: check
check: static other-systems ## check an edit in a few minutes: no root, no network, nothing installed
	$(TEST) -skip '$(REAL)' . $(FAST)

.PHONY: test
test: ## set up and run the tests
	@$(MAKE) --no-print-directory -j2 setup-test static
	@$(MAKE) --no-print-directory suites

.PHONY: suites
suites: init # the first tier; a make of its own, which sees what setup-test has installed
	@[ -n "$(RACE)" ] || echo "NOTE: not root, or no gcc: the tests run without the race detector"
	$(TEST) -p 2 -skip '$(REAL)' $(PLAIN) & plain=$$!; \
	  $(TEST) $(RACE) -p 2 -skip '$(REAL)' $(RACED); raced=$$?; wait $$plain && exit $$raced
	$(TEST) $(RACE) -run '$(LOCAL)' ./sandbox/local
	@echo "the conformance suite of sandboxes is about time and memory, which the race detector takes: without it"
	@mkdir -p $(VERDICTS)
	HAFT_VERDICTS=$(VERDICTS) $(TEST) -run '$(MODES)' ./sandbox/local

.PHONY: test-more
test-more: ## the second tier, after make test: other programs, all modes of the sandbox, containers, faults
	@$(MAKE) --no-print-directory -j2 setup-more other-systems
	@$(MAKE) --no-print-directory suites-more

.PHONY: suites-more
suites-more: init # like suites, a make of its own
	@echo "real packages, servers and clients, and real servers that are killed, paused and starved: they wait"
	@echo "more than they compute, so side by side"
	HAFT_TEST_CACHE=$(CURDIR)/.haft/packages $(TEST) -p 2 -run '$(REAL)' -skip '^TestE2B_gvisor$$' ./app ./executor/script ./compat/letta ./cmd/haft \
	  ./internal/layer ./internal/supply ./internal/modelapi ./server & real=$$!; \
	  $(TEST) -count=1 ./internal/soak; soak=$$?; wait $$real && exit $$soak
	$(TEST) $(RACE) $(WIDE)
	$(TEST) $(RACE) -run '$(REAL)' ./executor/upstream
	@mkdir -p $(VERDICTS)
	HAFT_VERDICTS=$(VERDICTS) $(TEST) -skip '$(LOCAL)|$(MODES)' ./sandbox/local
	@scripts/setup gvisor
	@mkdir -p $(VERDICTS)/gvisor
	HAFT_VERDICTS=$(VERDICTS)/gvisor $(TEST) ./sandbox/gvisor
	$(TEST) -run '^TestSession_conformance_gvisor$$' ./internal/session
	$(TEST) -run '^TestE2B_gvisor$$' ./app
	HAFT_VERDICTS=$(VERDICTS) $(TEST) -count=1 ./deploy
	HAFT_VERDICTS=$(VERDICTS) $(TEST) -run '^TestAttacks' .

.PHONY: race
race: init ## run the tests of all packages with the race detector, which make test does only for those in RACED
	$(TEST) $(RACE) -p 3 -skip '$(REAL)' $(PLAIN) $(RACED)

# The packages with tests of time, order or chance. Each takes a minute or so for one run, and this takes hours.
REPEATED := $(addprefix ./,sandbox/cell sandbox/process executor/upstream compat/e2b server server/mcpserver \
  $(addprefix internal/,conversation egress engine event followup limit localsocket memory session store/sqlite webhook workspace))

.PHONY: repeat
repeat: init ## run the tests of time, order and chance TIMES times (30)
	$(TEST) -p 1 -count=$(or $(TIMES),30) -skip '$(REAL)' $(REPEATED)

.PHONY: size
size: ## count lines of code: no blank lines, no comments, no tests
	@{ git ls-files '*.go' | grep -v 'test/[^/]*$$'; git ls-files 'internal/tooltest/*.go'; } | grep -v '_test\.go$$' | xargs cat | sed -e '/^[[:space:]]*$$/d' -e '/^[[:space:]]*\/\//d' | wc -l

.PHONY: bench
bench: setup build ## measure ours beside what people use otherwise, in one run
	@scripts/setup bench
	$(BIN) bench $(BENCHFLAGS)

.PHONY: attack
attack: setup build ## run the hostile programs on this machine's kernel
	HAFT_ATTACK_TIME=$(ATTACKTIME) $(BIN) doctor --attack

.PHONY: attack-long
attack-long: init # the same attack on the supervisor, for ATTACKTIME in each mode of the conformance suite
	HAFT_ATTACK_TIME=$(ATTACKTIME) $(TEST) -count=1 -run '^TestConformance.*/attack_on' ./sandbox/local

.PHONY: soak
soak: ## kill, pause and starve real servers, and check every accepted call
	HAFT_SOAK=long $(GO) test -count=1 -timeout 2h -v ./internal/soak -run '^TestSoak$$/^all$$/$(SOAK)'

.PHONY: soak-users
soak-users: init ## have 1,000 users call while things break, and print what they see
	HAFT_SOAK=long $(TEST) -count=1 -v ./internal/soak -run '^TestUsers$$'

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each (60s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: mutate
mutate: init ## turn off the refusals of PKG one by one, and print those that no test notices
	$(GO) run ./scripts/mutate -run '$(RUN)' -tests '$(TESTS)' $(PKG)

.PHONY: fixture
fixture: build ## keep a store of this version, as NAME, that later ones have to open
	scripts/fixture $(NAME)

.PHONY: lint
lint: ## golangci-lint, and govulncheck where its database answers
	@GOBIN=$(TOOLS) scripts/lint

.PHONY: fmt
fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')
	$(GO) mod tidy
