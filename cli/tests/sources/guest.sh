#!/bin/sh
exec qemu-system-x86_64 -enable-kvm -machine q35 -cpu host -smp 380 -m 64G
