# The commands of the README. Each sets up what it needs on a Debian or Ubuntu machine.

CARGO ?= cargo
PACKAGES = gcc libc6-dev make cpio zstd xz-utils acpica-tools python3 mmdebstrap seabios ovmf
# Opens the HTML report in a test. Ubuntu's package of this name is a snap, which not every machine can run.
PACKAGES += $(shell grep -qs '^ID=debian' /etc/os-release && echo chromium)

.PHONY: demo test bench packages static install deb reproduce book

# Compares guests of KVM with AVIC off and on, on an emulated host with Debian's kernel; on the built-in
# hypervisor where no kernel can be fetched.
# It builds without the libraries that only `exits` needs, and the program itself, whose loops read recordings,
# quickly rather than well.
QUICKLY = --config profile.release.package.avicenna.opt-level=1 --config profile.release.package.avicenna.codegen-units=4
demo:
	$(CARGO) build --locked --release --package avicenna --no-default-features $(QUICKLY)
	target/release/avicenna lab run

# `kut=TREE`, a built tree of kvm-unit-tests, includes them as guests of the lab's KVM. `program=FILE` boots
# kernels with that program instead of the one that the tests built, which checks its own arithmetic.
test: packages
	KVM_UNIT_TESTS=$(kut) $(CARGO) xtask test $(program)

# One file that needs nothing of the machine it is copied to, such as an initramfs.
static:
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --locked --release --package avicenna \
	    --target x86_64-unknown-linux-gnu
	@echo target/x86_64-unknown-linux-gnu/release/avicenna

# The binary, its man pages and completions, below PREFIX.
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
install:
	$(CARGO) build --locked --profile dist --package avicenna
	install -D target/dist/avicenna $(DESTDIR)$(PREFIX)/bin/avicenna
	target/dist/avicenna generate man $(SHARE)/man/man1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	    $(SHARE)/fish/vendor_completions.d
	target/dist/avicenna generate completions bash > $(SHARE)/bash-completion/completions/avicenna
	target/dist/avicenna generate completions zsh > $(SHARE)/zsh/site-functions/_avicenna
	target/dist/avicenna generate completions fish > $(SHARE)/fish/vendor_completions.d/avicenna.fish

# Where things were built does not show in what is built; times are those of the package's changelog.
MAPPED = --remap-path-prefix=$(CURDIR)=/avicenna --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
C_MAPPED = -ffile-prefix-map=$(CURDIR)=/avicenna -ffile-prefix-map=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
MAPPED_BUILD = RUSTFLAGS="$(MAPPED)" CFLAGS="$(C_MAPPED)" $(CARGO) build --locked --profile dist --package avicenna

# A Debian package and its bill of materials, in target/deb.
deb:
	$(MAPPED_BUILD)
	packaging/deb.sh target/dist/avicenna target/deb
	$(CARGO) xtask bill >target/deb/avicenna.cdx.json

# Two builds in different folders are the same to the last byte.
reproduce:
	@git diff --quiet HEAD || { echo "what is not committed would be in one of the two builds only" >&2; exit 2; }
	$(MAPPED_BUILD)
	packaging/reproduce.sh target/dist/avicenna

# The documentation as a book, in target/book. Needs mdbook: cargo install mdbook.
book:
	rm -rf target/book-pages && mkdir -p target && cp -r docs target/book-pages
	$(CARGO) run --locked --quiet --package avicenna -- lint --explain all >target/book-pages/operators/rules.md
	sed -i 's|^.*(operators/lint.md).*$$|&\n  - [Rules](operators/rules.md)|' target/book-pages/SUMMARY.md
	$(CARGO) run --locked --quiet --package avicenna -- lab recipes all >target/book-pages/recipes.md
	sed -i 's|^.*(lab.md).*$$|&\n  - [Recipes](recipes.md)|' target/book-pages/SUMMARY.md
	mdbook build

bench:
	$(CARGO) build --locked --release --package avicenna
	bench/machine.sh target/release/avicenna

# Debian packages that the tests use; without the right to install them, those tests say that they
# are skipped.
packages:
	@missing=""; for package in $(PACKAGES); do \
	    dpkg -s $$package > /dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then \
	    if [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        apt-get install -y -qq --no-install-recommends $$missing; else echo "not installed:$$missing"; fi; fi
