<?php // admin/index.php
