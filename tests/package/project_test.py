#!/usr/bin/env python3
"""What packages take from the commit that they are of: see toolchains/package/project.py."""
import os
import shutil
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, 'toolchains', 'package'))
import project  # noqa: E402


class Commit(unittest.TestCase):
    """Of a source in a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='gantry_project_')
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(self.folder, 'CMakeLists.txt'), 'w', encoding='utf-8') as file:
            file.write('project(gantry VERSION 0.1.0 LANGUAGES CXX)\n')
        for patch in (unittest.mock.patch.object(project, 'SOURCE', self.folder),
                      unittest.mock.patch.dict(os.environ, {'SOURCE_DATE_EPOCH': '', 'LC_ALL': 'C'})):
            patch.start()
            self.addCleanup(patch.stop)

    def git(self, *arguments):
        settings = ('user.name=A', 'user.email=a@example.com', 'commit.gpgSign=no', 'tag.gpgSign=no', 'core.hooksPath=/dev/null')
        project.run(['git', '-C', self.folder, *(word for each in settings for word in ('-c', each)), *arguments])

    def commit(self):
        self.git('commit', '--quiet', '--allow-empty', '--message', 'Changed')

    def test_versions_rise_over_a_tag_of_either_kind(self):
        if not shutil.which('git'):
            self.skipTest('git is not installed')
        project.run(['git', 'init', '--quiet', self.folder])
        self.git('add', 'CMakeLists.txt')
        for kind in ([], ['--annotate', '--message', 'Released']):
            with self.subTest(kind or 'lightweight'):
                self.commit()
                self.assertRegex(project.version(), r'^0\.1\.0~git\d{8}\.\d{4}\.[0-9a-f]{7,}$')
                self.git('tag', *kind, 'v0.1.0')
                self.assertEqual(project.version(), '0.1.0')
                self.commit()
                self.assertRegex(project.version(), r'^0\.1\.0\+git\d{8}\.\d{4}\.[0-9a-f]{7,}$')
                self.git('tag', '--delete', 'v0.1.0')

    def test_without_git_there_is_no_time(self):
        with unittest.mock.patch.dict(os.environ, {'PATH': self.folder}):
            with self.assertRaisesRegex(project.PackagingError, 'set SOURCE_DATE_EPOCH to .*\ngit is not installed'):
                project.epoch()

    def test_without_git_a_time_that_is_given_is_taken(self):
        with unittest.mock.patch.dict(os.environ, {'PATH': self.folder, 'SOURCE_DATE_EPOCH': '1764061320'}):
            self.assertEqual(project.version(), '0.1.0~git20251125.0902.unknown')

    def test_what_git_says_is_the_reason(self):
        if not shutil.which('git'):
            self.skipTest('git is not installed')
        project.run(['git', 'init', '--quiet', self.folder])
        with self.assertRaisesRegex(project.PackagingError, '\nfatal: .'):
            project.epoch()


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-v', *sys.argv[1:]])
